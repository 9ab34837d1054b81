// SPDX-License-Identifier: BSD-3-Clause
//
// What addr2line prints about an address: the address, and for each function that is there, those that were
// inlined first, its name and its line. Names are the program's, so that anything may stand there.
#pragma once

#include <string_view>
#include <vector>

#include "tools/check/report.hpp"

namespace sluice::tools::check {

// Offset and module are left to the caller. Empty: addr2line has said nothing.
std::vector<Place> places_in(std::string_view answer);

} // namespace sluice::tools::check
