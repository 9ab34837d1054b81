// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/conf_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/result.hpp"

namespace sluice::dat {

namespace {

constexpr std::size_t kFields = 8;
constexpr std::string_view kBlanks = " \t\r\v\f";

struct FieldRule {
    const char* name;
    bool (*read)(std::string&& text, ConfEntry& entry);
    const char* valid; // what it must look like
};

bool is_printable(std::string_view text) noexcept {
    return std::ranges::all_of(text, [](unsigned char byte) { return byte >= ' ' && byte != 0x7f; });
}

// "MAJOR.MINOR", both decimal.
bool read_version(std::string_view text, std::uint32_t& major, std::uint32_t& minor) noexcept {
    const char* const end = text.data() + text.size();
    const auto [dot, major_error] = std::from_chars(text.data(), end, major);
    if (major_error != std::errc() || dot == end || *dot != '.') {
        return false;
    }
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, minor);
    return minor_error == std::errc() && rest == end;
}

bool read_api(std::string&& text, ConfEntry& entry) {
    if (text.empty() || (text[0] != 'u' && text[0] != 'k')) {
        return false;
    }
    entry.is_for_kernel = text[0] == 'k';
    return read_version(std::string_view(text).substr(1), entry.api_major, entry.api_minor);
}

// One of two words.
bool read_choice(std::string_view text, std::string_view yes, std::string_view no, bool& value) noexcept {
    value = text == yes;
    return value || text == no;
}

const std::array<FieldRule, kFields> kRules{{
    {"the IA name",
     [](std::string&& text, ConfEntry& entry) {
         entry.ia_name = std::move(text);
         return !entry.ia_name.empty() && entry.ia_name.size() <= kMaxIaName;
     },
     "1 to 255 characters"},
    {"the API version", read_api, "u or k, and a version such as 1.2"},
    {"the thread safety",
     [](std::string&& text, ConfEntry& entry) {
         return read_choice(text, "threadsafe", "nonthreadsafe", entry.is_thread_safe);
     },
     "threadsafe or nonthreadsafe"},
    {"the default mark",
     [](std::string&& text, ConfEntry& entry) {
         return read_choice(text, "default", "nondefault", entry.is_default);
     },
     "default or nondefault"},
    {"the library",
     [](std::string&& text, ConfEntry& entry) {
         entry.library = std::move(text);
         return !entry.library.empty();
     },
     "a path or the name of a library"},
    {"the provider's version",
     [](std::string&& text, ConfEntry& entry) {
         entry.provider_version = std::move(text);
         return !entry.provider_version.empty();
     },
     "a text such as vendor.1.0"},
    {"the instance data",
     [](std::string&& text, ConfEntry& entry) {
         entry.instance_data = std::move(text);
         return true;
     },
     "any text"},
    {"the platform",
     [](std::string&& text, ConfEntry& entry) {
         entry.platform = std::move(text);
         return true;
     },
     "any text"},
}};

Error problem(const char* text) noexcept {
    return Error(ErrorKind::kProtocol, text);
}

// Takes the next field off LINE; nothing when only blanks or a comment are left.
Result<std::optional<std::string>> next_field(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty() || line[0] == '#') {
        line = {};
        return std::optional<std::string>();
    }
    const bool is_quoted = line[0] == '"';
    std::size_t at = is_quoted ? 1 : 0;
    std::string field;
    for (;; ++at) {
        if (at == line.size()) {
            if (is_quoted) {
                return problem("a quote is not closed");
            }
            break;
        }
        if (is_quoted ? line[at] == '"' : kBlanks.find(line[at]) != std::string_view::npos) {
            break;
        }
        if (line[at] == '\\' && ++at == line.size()) {
            return problem("the line ends after a backslash");
        }
        field += line[at];
    }
    line.remove_prefix(std::min(at + 1, line.size()));
    if (!is_printable(field)) {
        return problem("a field holds control characters");
    }
    return std::optional(std::move(field));
}

// Whether LINE holds an entry, which ENTRY becomes; not when it says nothing.
Result<bool> parse_line(std::string_view line, ConfEntry& entry) {
    for (std::size_t i = 0; i < kFields; ++i) {
        const FieldRule& rule = kRules[i];
        Result<std::optional<std::string>> field = next_field(line);
        if (!field) {
            return std::move(field).error();
        }
        if (!field->has_value()) {
            if (i == 0) {
                return false;
            }
            return Error::format(ErrorKind::kProtocol, 0, "%s is missing; an entry has %zu fields", rule.name,
                                 kFields);
        }
        const std::string said = **field;
        if (!rule.read(*std::move(*field), entry)) {
            return Error::format(ErrorKind::kProtocol, 0, "%s is '%.80s' instead of %s", rule.name,
                                 said.c_str(), rule.valid);
        }
    }
    Result<std::optional<std::string>> rest = next_field(line);
    if (!rest) {
        return std::move(rest).error();
    }
    if (rest->has_value()) {
        return problem("something stands after the last field");
    }
    return true;
}

} // namespace

Conf parse_conf(std::string_view text) {
    Conf conf;
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        ConfEntry entry;
        const Result<bool> is_entry = parse_line(text.substr(0, end), entry);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (conf.entries.size() + conf.problems.size() == kMaxConfEntries) {
            conf.problems.push_back({number, "the file has too many entries; the rest is not read"});
            break;
        }
        if (!is_entry) {
            conf.problems.push_back({number, is_entry.error().text()});
        } else if (*is_entry) {
            entry.line = number;
            conf.entries.push_back(std::move(entry));
        }
    }
    return conf;
}

} // namespace sluice::dat
