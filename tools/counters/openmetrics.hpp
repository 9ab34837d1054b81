// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice stat --metrics`: counters as text in the format of OpenMetrics 1.0, which Prometheus and others
// take.
#pragma once

#include <ostream>
#include <vector>

#include "tools/library.hpp"

namespace sluice::tools::counters {

void print_openmetrics(std::ostream& out, const std::vector<UroceUse>& uses);

} // namespace sluice::tools::counters
