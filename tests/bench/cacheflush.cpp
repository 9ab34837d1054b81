// SPDX-License-Identifier: BSD-3-Clause
//
// What one instruction costs: bench_cacheflush [--json FILE] [--quick].
//
// Each instruction that the CPU has, as SLUICE_CACHEFLUSH would choose it, over ranges of several
// sizes that are dirty, clean or in no cache. Google Benchmark runs them in random order and
// repeats; the time is ours, from the first instruction until a full fence is through. The
// figures are medians of the repetitions, in ns per line.
#include <benchmark/benchmark.h>

#include <map>

#include "core/coherence/cacheflush.hpp"
#include "core/coherence/choice.hpp"
#include "tests/bench/harness.hpp"

namespace sluice::bench {

namespace {

using coherence::Ops;

enum class State { kDirty, kClean, kUncached };

const char* name_of(State state) {
    return state == State::kDirty ? "dirty" : state == State::kClean ? "clean" : "in no cache";
}

void put_into(State state, const Ops& ops, Buffer& buffer, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at < bytes; at += 16) {
        volatile char* byte = buffer.data() + at;
        *byte = static_cast<char>(*byte + 1);
    }
    if (state != State::kDirty) {
        coherence::invalidate(ops, buffer.address(), bytes);
    }
    if (state == State::kClean) {
        for (std::uint64_t at = 0; at < bytes; at += ops.line_bytes) {
            volatile char* byte = buffer.data() + at;
            keep(*byte);
        }
    }
    drain();
}

struct Case {
    Ops ops;
    bool invalidate;
    State state;
    std::uint64_t bytes;
};

void run_case(benchmark::State& bench, const Case& one, Buffer& buffer) {
    for (auto _ : bench) {
        put_into(one.state, one.ops, buffer, one.bytes);
        const std::uint64_t start = ticks();
        if (one.invalidate) {
            coherence::invalidate(one.ops, buffer.address(), one.bytes);
        } else {
            coherence::clean(one.ops, buffer.address(), one.bytes);
        }
        drain();
        const double ns = static_cast<double>(ticks() - start) * ns_per_tick() - clock_ns();
        bench.SetIterationTime(std::max(ns, 0.0) * 1e-9);
    }
}

// Collects the repetitions of each case instead of printing them.
class Collector : public benchmark::BenchmarkReporter {
  public:
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>& runs) override {
        for (const Run& run : runs) {
            if (run.run_type == Run::RT_Iteration) {
                ns_[run.run_name.function_name].push_back(run.real_accumulated_time /
                                                          static_cast<double>(run.iterations) * 1e9);
            }
        }
    }
    double median_ns(const std::string& name) const { return median(ns_.at(name)); }

  private:
    std::map<std::string, std::vector<double>> ns_;
};

std::vector<Ops> all_choices() {
    std::vector<Ops> choices;
    for (const char* name :
         {"clwb", "clflushopt", "clflush", "cvac", "civac", "cbo.clean", "cbo.flush", "dcbst", "dcbf"}) {
        if (const Result<Ops> ops = coherence::choose_for_this_cpu(name)) {
            choices.push_back(*ops);
        }
    }
    return choices;
}

std::string size_name(std::uint64_t bytes) {
    constexpr std::uint64_t kMiB = 1 << 20;
    return bytes >= kMiB ? std::to_string(bytes / kMiB) + " MiB" : std::to_string(bytes / 1024) + " KiB";
}

struct Named {
    std::string name;
    std::string label;
    Case one;
};

std::vector<Named> all_cases() {
    std::vector<Named> cases;
    for (const Ops& ops : all_choices()) {
        for (const std::uint64_t kib : {4, 16, 256, 1024, 4096, 16384}) {
            for (const State state : {State::kDirty, State::kClean, State::kUncached}) {
                const std::string what = size_name(kib << 10) + ", " + name_of(state);
                cases.push_back({std::to_string(cases.size()),
                                 std::string("clean with ") + ops.clean.name + ", " + what,
                                 {ops, false, state, kib << 10}});
            }
        }
        cases.push_back({std::to_string(cases.size()),
                         std::string("invalidate with ") + ops.invalidate.name + ", 16 KiB, dirty",
                         {ops, true, State::kDirty, 16 << 10}});
    }
    return cases;
}

} // namespace

int run(Report& report, const char* program) {
    Buffer buffer(16 << 20);
    const std::vector<Named> cases = all_cases();
    for (const Named& named : cases) {
        benchmark::RegisterBenchmark(named.name.c_str(), run_case, named.one, std::ref(buffer))
            ->UseManualTime()
            ->Iterations(named.one.bytes > (1 << 20) ? 4 : 40)
            ->Repetitions(report.rounds(50));
    }
    std::string arguments[] = {program, "--benchmark_enable_random_interleaving=true"};
    char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
    int argc = 2;
    benchmark::Initialize(&argc, argv);
    Collector collector;
    benchmark::RunSpecifiedBenchmarks(&collector);
    for (const Named& named : cases) {
        const double lines = static_cast<double>(named.one.bytes / named.one.ops.line_bytes);
        report.add(
            {.name = named.label, .value = collector.median_ns(named.name) / lines, .unit = "ns/line"});
    }
    return report.finish();
}

} // namespace sluice::bench

int main(int argc, char** argv) {
    using namespace sluice;
    bench::Report report("cacheflush: one range, from the first instruction to the last fence", argc, argv);
    bench::pin_to_cpu(bench::cpus() - 1);
    if (const Result<const coherence::Ops*> ops = coherence::native_ops(); !ops) {
        std::printf("nothing to measure: %s\n", ops.error().text());
        return report.finish();
    }
    return bench::run(report, argv[0]);
}
