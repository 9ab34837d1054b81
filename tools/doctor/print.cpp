// SPDX-License-Identifier: BSD-3-Clause
#include "tools/doctor/print.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/terminal.hpp"

namespace sluice::tools::doctor {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFindingsSchema = 1;
constexpr std::size_t kColumns = 80;
constexpr std::size_t kVerdictWidth = 9;
constexpr std::size_t kSubjectWidth = 12;
constexpr std::size_t kFactColumn = kVerdictWidth + kSubjectWidth;
constexpr std::size_t kCommandColumn = 4;

// A terminal that is narrower gets narrower lines, as far as that helps.
std::size_t line_width() {
    constexpr std::size_t kLeastFact = 12;
    const std::size_t width = terminal_width();
    return width == 0 ? kColumns : std::clamp(width, kFactColumn + kLeastFact, kColumns);
}

Tone tone_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::kOk:
        return Tone::kGood;
    case Verdict::kWarning:
        return Tone::kWarning;
    case Verdict::kProblem:
        return Tone::kBad;
    }
    return Tone::kPlain;
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(width, text.size() + 1), ' ');
    return text;
}

// What a terminal would take for a command of its own is shown as '?'.
std::string printable(std::string text) {
    for (char& each : text) {
        const auto byte = static_cast<unsigned char>(each);
        each = byte < ' ' || byte == 0x7f ? '?' : each;
    }
    return text;
}

// The words of TEXT, the first behind FIRST, in lines that begin at COLUMN.
void print_wrapped(const std::string& text, std::size_t column) {
    std::istringstream words(printable(text));
    std::size_t at = column;
    for (std::string word; words >> word;) {
        if (at > column && at + 1 + word.size() > line_width()) {
            std::cout << '\n' << std::string(column, ' ');
            at = column;
        }
        std::cout << (at > column ? " " : "") << word;
        at += word.size() + (at > column ? 1 : 0);
    }
    std::cout << '\n';
}

// Where a shell's line may be broken: at spaces that nothing quotes.
std::vector<std::string> unquoted_words(const std::string& command) {
    std::vector<std::string> words(1);
    char quote = '\0';
    for (const char each : command) {
        if (each == ' ' && quote == '\0') {
            words.emplace_back();
            continue;
        }
        if (each == '\'' || each == '"') {
            quote = quote == '\0' ? each : quote == each ? '\0' : quote;
        }
        words.back() += each;
    }
    return words;
}

void print_command(const std::string& command) {
    constexpr std::size_t kForBackslash = 2;
    std::string line(kCommandColumn, ' ');
    bool is_first = true;
    for (const std::string& word : unquoted_words(command)) {
        if (!is_first && line.size() + 1 + word.size() + kForBackslash > line_width()) {
            std::cout << line << " \\\n";
            line = std::string(kCommandColumn * 2, ' ') + word;
        } else {
            line += (is_first ? "" : " ") + word;
        }
        is_first = false;
    }
    std::cout << line << '\n';
}

void print_remedy(const Remedy& remedy) {
    if (!remedy.by.empty()) {
        const std::string lead = remedy.command.empty() ? "This can be cured by " : "This can be done by ";
        std::cout << std::string(kCommandColumn, ' ');
        print_wrapped(lead + remedy.by + (remedy.command.empty() ? "." : ":"), kCommandColumn);
    }
    if (!remedy.command.empty()) {
        print_command(remedy.command);
    }
}

void print_finding(const Finding& finding, bool in_colours) {
    const std::string verdict = padded(name_of(finding.verdict), kVerdictWidth);
    std::cout << coloured(in_colours ? tone_of(finding.verdict) : Tone::kPlain, verdict)
              << padded(finding.subject, kSubjectWidth);
    print_wrapped(finding.fact, kFactColumn);
    print_remedy(finding.remedy);
}

std::string counted(std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

} // namespace

void print_text(const Options& options, const Report& report) {
    const bool in_colours = is_coloured(options.color);
    for (const Finding& finding : report.findings()) {
        print_finding(finding, in_colours);
    }
    std::cout << '\n'
              << counted(report.count(Verdict::kProblem), "problem") << ", "
              << counted(report.count(Verdict::kWarning), "warning") << '\n';
}

void print_json(const Report& report) {
    Json list = Json::array();
    for (const Finding& finding : report.findings()) {
        list.push_back({{"verdict", name_of(finding.verdict)},
                        {"subject", finding.subject},
                        {"fact", finding.fact},
                        {"remedy", text_or_null(finding.remedy.command)},
                        {"by", text_or_null(finding.remedy.by)}});
    }
    const Json document{{"schema", kFindingsSchema}, {"findings", std::move(list)}};
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

} // namespace sluice::tools::doctor
