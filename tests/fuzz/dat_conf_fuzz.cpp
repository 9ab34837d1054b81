// SPDX-License-Identifier: BSD-3-Clause
//
// The parser of dat.conf against any bytes. libFuzzer and AFL call the same entry.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "udapl/registry/conf_parser.hpp"

namespace {

bool is_printable(const std::string& text) {
    return std::all_of(text.begin(), text.end(),
                       [](unsigned char byte) { return byte >= ' ' && byte != 0x7f; });
}

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

} // namespace

// What must hold besides not crashing: an entry can be opened by its name, and what is printed
// about a line fits on a terminal.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto lines = static_cast<std::int64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    const sluice::dat::Conf conf = sluice::dat::parse_conf(text);
    for (const auto& entry : conf.entries) {
        require(!entry.ia_name.empty() && entry.ia_name.size() < 256 && !entry.library.empty());
        require(is_printable(entry.ia_name) && is_printable(entry.library) &&
                is_printable(entry.instance_data));
        require(entry.line >= 1 && entry.line <= lines);
    }
    for (const auto& problem : conf.problems) {
        require(is_printable(problem.text) && problem.line >= 1 && problem.line <= lines);
    }
    return 0;
}
