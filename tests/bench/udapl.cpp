// SPDX-License-Identifier: BSD-3-Clause
//
// What DAT costs beyond verbs on the same device: bench_udapl [--json FILE] [--quick].
//
// As programs see it, through libdat, on a uroce device: its memory (udapl_memory.cpp) and its time
// (udapl_speed.cpp).
#include "tests/bench/udapl.hpp"

int main(int argc, char** argv) {
    sluice::bench::Report report("udapl: DAT 1.2 beside the verbs that it stands on", argc, argv);
    // First what forks: children open devices of their own, and are to find none of ours.
    sluice::bench::udapl_memory_figures(report);
    sluice::bench::udapl_speed_figures(report);
    return report.finish();
}
