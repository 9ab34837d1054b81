// SPDX-License-Identifier: BSD-3-Clause
#include "tools/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace sluice::tools {

namespace {

constexpr unsigned kUsualWidth = 80;
constexpr unsigned kMostWidth = 4096;

std::string_view variable(const char* name) {
    const char* const said = std::getenv(name);
    return said == nullptr ? "" : said;
}

// A terminal that doesn't know its own width, such as a serial line, has what COLUMNS says.
unsigned width_by_environment() {
    const std::string_view said = variable("COLUMNS");
    unsigned width = 0;
    const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), width);
    const bool is_number = error == std::errc() && end == said.data() + said.size();
    return is_number && width > 0 && width <= kMostWidth ? width : kUsualWidth;
}

} // namespace

unsigned terminal_width() {
    if (isatty(STDOUT_FILENO) != 1) {
        return 0;
    }
    winsize size{};
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : width_by_environment();
}

bool is_coloured(const std::string& when) {
    if (when != "auto") {
        return when == "always";
    }
    return variable("NO_COLOR").empty() && variable("TERM") != "dumb" && isatty(STDOUT_FILENO) == 1;
}

const char* sequence_of(Tone tone) {
    switch (tone) {
    case Tone::kPlain:
        return "";
    case Tone::kHeading:
        return "\x1b[1m";
    case Tone::kGood:
        return "\x1b[32m";
    case Tone::kWarning:
        return "\x1b[33m";
    case Tone::kBad:
        return "\x1b[31m";
    }
    return "";
}

std::string coloured(Tone tone, const std::string& text) {
    return tone == Tone::kPlain ? text : sequence_of(tone) + text + "\x1b[0m";
}

} // namespace sluice::tools
