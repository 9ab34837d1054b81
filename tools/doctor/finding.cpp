// SPDX-License-Identifier: BSD-3-Clause
#include "tools/doctor/finding.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace sluice::tools::doctor {

namespace {

bool is_plain(char each) {
    constexpr std::string_view kOthers = "/._-+=:,@%";
    return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
           kOthers.find(each) != std::string_view::npos;
}

// The first word of TEXT that is the name of a variable of ours, and set.
std::string variable_in(const std::string& text) {
    constexpr std::string_view kPrefix = "SLUICE_";
    const std::size_t begin = text.find(kPrefix);
    if (begin == std::string::npos) {
        return {};
    }
    const std::size_t end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin);
    std::string name = text.substr(begin, end == std::string::npos ? end : end - begin);
    return std::getenv(name.c_str()) == nullptr ? "" : name;
}

// "/etc/sluice/sluice.conf:3: ..." in TEXT: the file, a colon and the line.
std::string place_in(const std::string& text) {
    const std::size_t begin = text.find('/');
    const std::size_t colon = text.find(':', begin);
    if (begin == std::string::npos || colon == std::string::npos) {
        return {};
    }
    const std::size_t end = text.find_first_not_of("0123456789", colon + 1);
    return end == colon + 1 ? "" : text.substr(begin, end == std::string::npos ? end : end - begin);
}

} // namespace

void Report::add(Verdict verdict, std::string fact, Remedy remedy) {
    const auto same = std::ranges::find_if(findings_, [&remedy](const Finding& finding) {
        return !remedy.command.empty() && finding.remedy.command == remedy.command;
    });
    if (same != findings_.end()) {
        if (same->verdict >= verdict) {
            return;
        }
        findings_.erase(same);
    }
    findings_.push_back({verdict, subject_, std::move(fact), std::move(remedy)});
}

std::size_t Report::count(Verdict verdict) const {
    return static_cast<std::size_t>(std::ranges::count(findings_, verdict, &Finding::verdict));
}

const char* name_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::kOk:
        return "ok";
    case Verdict::kWarning:
        return "warning";
    case Verdict::kProblem:
        return "problem";
    }
    return "";
}

std::string shell_word(const std::string& text) {
    if (!text.empty() && std::ranges::all_of(text, is_plain)) {
        return text;
    }
    std::string word = "'";
    for (const char each : text) {
        word += each == '\'' ? std::string("'\\''") : std::string(1, each);
    }
    return word + "'";
}

Remedy as_root(std::string command) {
    return {std::move(command), geteuid() == 0 ? "" : "root"};
}

Remedy comment_out(const std::string& file, unsigned long line) {
    return {"sed -i '" + std::to_string(line) + "s/^/# /' " + shell_word(file),
            access(file.c_str(), W_OK) == 0 ? "" : "root"};
}

Remedy remedy_for_setting(const std::string& text, const std::string& root) {
    if (const std::string variable = variable_in(text); !variable.empty()) {
        return {"unset " + variable, ""};
    }
    const std::string place = place_in(text);
    const std::size_t colon = place.rfind(':');
    if (place.empty()) {
        return {};
    }
    return comment_out(root + place.substr(0, colon), std::strtoul(place.c_str() + colon + 1, nullptr, 10));
}

} // namespace sluice::tools::doctor
