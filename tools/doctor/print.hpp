// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tools/doctor/finding.hpp"
#include "tools/output.hpp"

namespace sluice::tools::doctor {

// To standard output, 80 columns wide, or as wide as a terminal that is narrower. A command is broken
// where a shell takes the lines for one.
void print_text(const Options& options, const Report& report);

void print_json(const Report& report);

} // namespace sluice::tools::doctor
