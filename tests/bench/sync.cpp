// SPDX-License-Identifier: BSD-3-Clause
//
// What the sync calls cost: bench_sync [--json FILE] [--quick].
#include "tests/bench/sync.hpp"

#include "core/coherence/cacheflush.hpp"

int main(int argc, char** argv) {
    using namespace sluice;
    bench::Report report("sync: batches of segments, checked, cleaned and invalidated", argc, argv);
    bench::pin_to_cpu(bench::cpus() - 1);
    bench::coherent_figures(report);
    bench::table_figures(report);
    if (const Result<const coherence::Ops*> ops = coherence::native_ops(); !ops) {
        std::printf("no figures of flushing: %s\n", ops.error().text());
        return report.finish();
    }
    bench::flush_figures(report);
    bench::memory_figures(report);
    return report.finish();
}
