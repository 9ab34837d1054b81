// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace sluice::tools {

// For a run that shall be repeatable; short enough to be typed. A Failure of SUBCOMMAND where there are no
// random numbers.
std::uint64_t drawn_seed(const std::string& subcommand);

} // namespace sluice::tools
