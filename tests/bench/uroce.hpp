// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tests/bench/harness.hpp"

namespace sluice::bench {

// Latency, and larger messages against memcpy().
void within_figures(Report& report);
// Bandwidth and latency between two processes, against bare sockets.
void network_figures(Report& report);
// Resident memory of contexts and queue pairs.
void memory_figures(Report& report);

} // namespace sluice::bench
