// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/program_output.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace sluice::bench {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The part of REST before the first of ENDS, which REST loses together with that character.
std::string_view take_until(std::string_view& rest, std::string_view ends) {
    const std::size_t end = std::min(rest.find_first_of(ends), rest.size());
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return taken;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
        words.push_back(take_until(line, kBlanks));
    }
    return words;
}

// Of a measurement: anything else isn't one.
std::optional<double> positive(std::string_view word) {
    const std::string text(word);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && *end == '\0' && std::isfinite(value) && value > 0;
    return is_number ? std::optional(value) : std::nullopt;
}

std::optional<double> positive_at(const std::vector<std::string_view>& words, std::size_t index) {
    return index < words.size() ? positive(words[index]) : std::nullopt;
}

// perftest's columns: "#bytes", "#iterations", and then names with their units, such as "BW average[MB/sec]".
std::optional<std::size_t> column_of(std::string_view header, std::string_view name) {
    const std::size_t units = header.find("#iterations");
    if (units == std::string_view::npos) {
        return std::nullopt;
    }
    header.remove_prefix(units + std::string_view("#iterations").size());
    for (std::size_t column = 2; !trimmed(header).empty(); ++column) {
        const std::string_view title = trimmed(take_until(header, "]"));
        if (title.substr(0, title.find('[')) == name) {
            return column;
        }
    }
    return std::nullopt;
}

// From the first line of the table.
std::optional<double> perftest_figure(std::string_view output, std::string_view name) {
    while (!output.empty()) {
        const std::string_view header = trimmed(take_until(output, "\n"));
        if (header.starts_with("#bytes")) {
            const std::optional<std::size_t> column = column_of(header, name);
            return column ? positive_at(words_of(take_until(output, "\n")), *column) : std::nullopt;
        }
    }
    return std::nullopt;
}

// The name of the first column depends on the options. The others occur several times, so that the whole row
// must be the known one.
constexpr std::array<std::string_view, 18> kUcxNames = {"|",       "#", "iterations", "|", "50.0%ile", "|",
                                                        "average", "|", "overall",    "|", "average",  "|",
                                                        "overall", "|", "average",    "|", "overall",  "|"};

std::optional<double> ucx_figure(std::string_view output, std::size_t column) {
    bool is_known = false;
    while (!output.empty()) {
        const std::vector<std::string_view> words = words_of(take_until(output, "\n"));
        is_known = is_known || (words.size() == kUcxNames.size() + 2 &&
                                std::equal(kUcxNames.begin(), kUcxNames.end(), words.begin() + 2));
        if (is_known && !words.empty() && words[0] == "Final:") {
            return positive_at(words, column);
        }
    }
    return std::nullopt;
}

} // namespace

std::optional<double> perftest_median_us(std::string_view output) {
    return perftest_figure(output, "t_typical");
}

std::optional<double> perftest_mib_per_s(std::string_view output) {
    return perftest_figure(output, "BW average");
}

std::optional<double> perftest_million_messages_per_s(std::string_view output) {
    return perftest_figure(output, "MsgRate");
}

std::optional<double> ucx_median_us(std::string_view output) {
    return ucx_figure(output, 2);
}

std::optional<double> ucx_mib_per_s(std::string_view output) {
    return ucx_figure(output, 6);
}

} // namespace sluice::bench
