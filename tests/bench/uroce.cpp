// SPDX-License-Identifier: BSD-3-Clause
//
// What the device without a kernel costs: bench_uroce [--json FILE] [--quick].
//
// As programs see it, through libibverbs' public calls: its memory (uroce_memory.cpp), between two
// processes (uroce_network.cpp), and within one (uroce_within.cpp).
#include "tests/bench/uroce.hpp"

int main(int argc, char** argv) {
    sluice::bench::Report report("uroce: an RDMA device without a kernel", argc, argv);
    // First what forks: children open devices of their own, and are to find none of ours.
    sluice::bench::memory_figures(report);
    sluice::bench::network_figures(report);
    sluice::bench::within_figures(report);
    return report.finish();
}
