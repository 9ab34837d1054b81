// SPDX-License-Identifier: BSD-3-Clause
//
// uroce between processes of one host, with unmodified programs: bench_uroce_local [--json FILE] [--quick].
//
// perftest and ucx_perftest as they are packaged, in pairs of two processes (uroce_local_programs.cpp), and
// sixteen processes that all exchange requests (uroce_local_crowd.cpp). The programs poll: each pair wants
// two processors for itself.
#include "tests/bench/uroce_local.hpp"

int main(int argc, char** argv) {
    sluice::bench::Report report("uroce_local: processes of one host", argc, argv);
    sluice::bench::program_figures(report);
    sluice::bench::crowd_figures(report);
    return report.finish();
}
