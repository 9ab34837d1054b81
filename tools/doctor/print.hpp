// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tools/doctor/finding.hpp"

namespace sluice::tools::doctor {

// To standard output, 80 columns wide; coloured on a terminal, unless NO_COLOR is set. A command is broken
// where a shell takes the lines for one.
void print_text(const Report& report);

void print_json(const Report& report);

} // namespace sluice::tools::doctor
