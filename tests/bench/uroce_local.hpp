// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tests/bench/harness.hpp"

namespace sluice::bench {

// Of unmodified programs, each as two processes, beside UCX's own ways through memory.
void program_figures(Report& report);
// Of many processes that all exchange requests: their rates, and what each takes of memory for another one.
void crowd_figures(Report& report);

} // namespace sluice::bench
