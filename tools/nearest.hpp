// SPDX-License-Identifier: BSD-3-Clause
//
// What somebody who mistyped a word may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::tools {

// How many letters have to be inserted, removed, replaced or exchanged with their neighbours to make one word
// of the other, without changing a place twice.
std::size_t edits_between(std::string_view one, std::string_view other);

// The word of WORDS that is at most two edits from WORD, and less than half of it; empty: none. Of several,
// the first of the nearest.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

// " (did you mean 'NEAREST'?)", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words);

} // namespace sluice::tools
