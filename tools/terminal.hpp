// SPDX-License-Identifier: BSD-3-Clause
//
// What standard output leads to: a terminal, how wide, and whether with colours.
#pragma once

#include <string>

namespace sluice::tools {

enum class Tone { kPlain, kHeading, kGood, kWarning, kBad };

// The columns of the terminal that standard output is; 0 when it is none.
unsigned terminal_width();

// Whether standard output is to have colours. WHEN is --color's: always, never, or auto, which leaves it to
// the terminal and to NO_COLOR.
bool is_coloured(const std::string& when);

// The escape sequence that begins TONE; empty for Tone::kPlain.
const char* sequence_of(Tone tone);

// TEXT in the colour of TONE.
std::string coloured(Tone tone, const std::string& text);

} // namespace sluice::tools
