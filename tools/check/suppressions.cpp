// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/suppressions.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "tools/check/record.hpp"
#include "tools/output.hpp"

namespace sluice::tools::check {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_blanks(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<Suppression> suppression_in(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view rule = without_blanks(text.substr(0, colon));
    const std::string_view where = without_blanks(text.substr(colon + 1));
    const bool is_rule =
        !rule.empty() && rule.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-*") == rule.npos;
    if (!is_rule || where.empty()) {
        return std::nullopt;
    }
    return Suppression{.rule = std::string(rule), .where = std::string(where)};
}

bool is_about(const Suppression& suppression, const Place& place) {
    const std::string& where = suppression.where;
    return (place.function != "?" && matches(where, place.function)) ||
           std::ranges::any_of(std::array{&place.module, &place.file}, [&where](const std::string* path) {
               return !path->empty() && *path != "?" &&
                      (matches(where, *path) || matches(where, name_of_path(*path)));
           });
}

bool is_about(const Suppression& suppression, const Report& report) {
    return matches(suppression.rule, report.rule) &&
           std::ranges::any_of(report.sides, [&suppression](const NamedSide& side) {
               return std::ranges::any_of(
                   side.places, [&suppression](const Place& place) { return is_about(suppression, place); });
           });
}

} // namespace

// After a "*" that has taken too little, the search goes on one character later: no recursion, and for each
// character of TEXT no more than the pattern's length.
bool matches(std::string_view pattern, std::string_view text) {
    std::size_t in_pattern = 0;
    std::size_t in_text = 0;
    std::size_t star = std::string_view::npos; // the last one, and where what it takes ends
    std::size_t taken = 0;
    while (in_text < text.size()) {
        if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
            star = in_pattern++;
            taken = in_text;
        } else if (in_pattern < pattern.size() && pattern[in_pattern] == text[in_text]) {
            ++in_pattern;
            ++in_text;
        } else if (star != std::string_view::npos) {
            in_pattern = star + 1;
            in_text = ++taken;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

Suppressions::Suppressions(std::istream& lines, const std::string& name) {
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        const std::string_view text = without_blanks(line);
        if (text.empty() || text.front() == '#') {
            continue;
        }
        std::optional<Suppression> suppression = suppression_in(text);
        if (!suppression) {
            throw Failure(kExitUsage, "check: " + name + ":" + std::to_string(number) + ": '" +
                                          printable(text) +
                                          "' is no suppression; RULE:FUNCTION, RULE:LIBRARY or "
                                          "RULE:SOURCE-FILE is one");
        }
        all_.push_back(std::move(*suppression));
    }
}

bool Suppressions::cover(const Report& report) {
    const auto found =
        std::ranges::find_if(all_, [&report](const Suppression& each) { return is_about(each, report); });
    if (found == all_.end()) {
        return false;
    }
    ++found->used;
    return true;
}

} // namespace sluice::tools::check
