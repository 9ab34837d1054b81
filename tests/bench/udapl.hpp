// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tests/bench/harness.hpp"

namespace sluice::bench {

// Resident memory of regions, endpoints and adapters, beyond that of the verbs objects below them.
void udapl_memory_figures(Report& report);
// Transfers, regions and sync calls, beside what they stand on.
void udapl_speed_figures(Report& report);

} // namespace sluice::bench
