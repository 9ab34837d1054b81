// SPDX-License-Identifier: BSD-3-Clause
//
// A finding with names and lines, and how it is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::tools::check {

// A call on a stack. A frame is several of them where functions were inlined.
struct Place {
    std::string function; // or "?"
    std::string file;     // of the source; empty: nobody knows
    unsigned line = 0;    // 0: nobody knows
    std::string module;   // the file that the program has loaded, or "?"
    std::uint64_t offset = 0;
    bool is_inlined = false; // into the next one
};

struct NamedSide {
    std::string title;
    std::vector<Place> places; // innermost first
};

struct Report {
    std::int64_t pid = 0;
    std::string rule;
    std::string object;
    std::string what;
    std::string remedy;
    std::vector<NamedSide> sides;
};

std::string name_of_path(const std::string& path);

// "FUNCTION at FILE:LINE (MODULE)", or "FUNCTION (MODULE+OFFSET)".
std::string text_of(const Place& place);
std::string text_of(const Report& report);
nlohmann::json json_of(const Report& report);
// The line that suppresses it; empty: none would.
std::string suppression_of(const Report& report);
// Where its first side is, in a few words.
std::string place_of(const Report& report);

// Equal for findings that are the same to a reader.
std::string key_of(const Report& report);
// Equal for those at one place: of one rule, and where the first side's innermost frame is the same.
std::string place_key_of(const Report& report);

} // namespace sluice::tools::check
