// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice trace` adds to a work request: bench_trace [--json FILE] [--quick].
//
// A process that writes from one of its uroce devices to another, run as it is and behind `sluice trace`, in
// turns. It measures itself: a request from its post to the poll that brings its completion. Two events are
// recorded of each that is signaled, and one of each that isn't. First touches of the recording's memory are
// in it.
#include "tests/bench/harness.hpp"
#include "tests/bench/own_build.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

constexpr int kBatch = 2000; // requests between two looks at the clock
constexpr std::uint32_t kList = 16;

constexpr std::size_t kPlain = 0;
constexpr std::size_t kPlainAgain = 1;
constexpr std::size_t kTraced = 2;

// ---- the process that is measured

class Writer {
  public:
    Writer() { connect(from_, to_); }

    void write_one() {
        from_.post_write(8);
        await();
    }
    // Of a list only the last is signaled.
    void write_list() {
        from_.post_writes(8, kList);
        await();
    }

  private:
    void await() {
        while (from_.poll() == 0) {
        }
    }

    Context left_{own_address(0)};
    Context right_{own_address(1)};
    Buffer source_{4096};
    Buffer target_{4096};
    End from_{left_, source_};
    End to_{right_, target_};
};

// Prints the median of nanoseconds per request.
int measure_self(const std::string& how, int batches) {
    Writer writer;
    std::vector<double> ns;
    ns.reserve(static_cast<std::size_t>(batches));
    for (int batch = 0; batch <= batches; ++batch) {
        const std::uint64_t start = ticks();
        for (int i = 0; i < (how == "one" ? kBatch : kBatch / static_cast<int>(kList)); ++i) {
            how == "one" ? writer.write_one() : writer.write_list();
        }
        if (batch != 0) { // the first warms up
            ns.push_back(static_cast<double>(ticks() - start) * ns_per_tick() / kBatch);
        }
    }
    std::printf("%.2f\n", median(std::move(ns)));
    return 0;
}

// ---- the one that starts it

double run_writer(const char* how, bool is_traced, int batches) {
    const std::string command = (is_traced ? in_build("tools/sluice") + " trace -o /dev/null -- " : "") +
                                own_path() + " --write " + how + " " + std::to_string(batches) +
                                " 2>/dev/null";
    FILE* const output = need(popen(command.c_str(), "r"), "popen");
    double ns = 0;
    const int found = std::fscanf(output, "%lf", &ns);
    if (pclose(output) != 0 || found != 1) {
        die(command.c_str());
    }
    return ns;
}

void cost_figures(Report& report, const char* how, const std::string& name, double goal_ns) {
    const int batches = report.quick() ? 5 : 20;
    const std::vector<double> ns = medians_in_turns(
        report.rounds(21), 3, [&](std::size_t which) { return run_writer(how, which == kTraced, batches); });
    report.add({.name = name + ", added by `sluice trace`",
                .value = ns[kTraced] - ns[kPlain],
                .unit = "ns",
                .kind = goal_ns != 0 ? Goal::kAtMost : Goal::kNone,
                .goal = goal_ns});
    report.add({.name = name + ", slower by",
                .value = ns[kTraced] / ns[kPlain],
                .unit = "x",
                .ours = ns[kTraced],
                .theirs = ns[kPlain],
                .noise = std::fabs(ns[kPlainAgain] / ns[kPlain] - 1)});
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    using namespace sluice::bench;
    if (argc == 4 && std::string(argv[1]) == "--write") {
        return measure_self(argv[2], static_cast<int>(std::strtol(argv[3], nullptr, 10)));
    }
    Report report("trace: what sluice trace adds to a work request", argc, argv);
    cost_figures(report, "one", "an 8-byte Write with its poll", 100);
    cost_figures(report, "list", "one of 16 Writes in a list", 100);
    return report.finish();
}
