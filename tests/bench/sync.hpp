// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of bench_sync, one per group of figures.
#pragma once

#include "tests/bench/harness.hpp"

namespace sluice::bench {

void coherent_figures(Report& report); // checks without flushes, alone and among other threads
void table_figures(Report& report);    // registering and freeing
void flush_figures(Report& report);    // batches against a bare loop and against a naive one
void memory_figures(Report& report);   // large ranges, other libraries, what a clean leaves behind

} // namespace sluice::bench
