// SPDX-License-Identifier: BSD-3-Clause
//
// Sixteen processes of one address, each with a connection to each other one: what each gets done, and what
// each takes of memory. All begin and end at the same time, and a rate counts requests of this time only. A
// process that finds nothing to take gives its processor away, as programs do that are more than the
// processors.
#include "tests/bench/crowd.hpp"
#include "tests/bench/uroce_local.hpp"

namespace sluice::bench {

namespace {

constexpr double kKib = 1024;
constexpr double kThousand = 1e3;

void add_rates(Report& report, const std::string& what, std::vector<double> counts, double seconds) {
    std::ranges::sort(counts);
    double sum = 0;
    for (const double count : counts) {
        sum += count;
    }
    const double fair = sum / static_cast<double>(counts.size());
    const auto rate = [seconds](double count) { return count / seconds / kThousand; };
    const std::string name = "16 processes, all to all, 8-byte " + what;
    report.add({.name = name + ": slowest / fair share",
                .value = counts.front() / fair,
                .unit = "x",
                .kind = Goal::kAtLeast,
                .goal = 0.5,
                .ours = rate(counts.front()),
                .theirs = rate(fair),
                .compared_unit = "k/s"});
    report.add({.name = "  fastest / fair share",
                .value = counts.back() / fair,
                .unit = "x",
                .kind = Goal::kAtMost,
                .goal = 2,
                .ours = rate(counts.back()),
                .theirs = rate(fair),
                .compared_unit = "k/s"});
    report.add({.name = "  median of the processes", .value = rate(median(counts)), .unit = "k/s"});
}

// For each of the others.
void add_memory(Report& report, const std::string& what, double bytes, double goal_kib) {
    report.add({.name = "memory of a process for a neighbour, " + what,
                .value = bytes / static_cast<double>(kCrowd - 1) / kKib,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = goal_kib});
}

} // namespace

void crowd_figures(Report& report) {
    const double seconds = report.quick() ? 1 : 5;
    Crowd crowd(own_address());
    crowd.open(0, 1);
    const double alone = crowd.memory_bytes_of_first();
    crowd.open(1, kCrowd);
    const double among_others = crowd.memory_bytes_of_first();
    crowd.connect();
    const std::vector<double> writes = crowd.exchange(Kind::kWrites, seconds);
    const std::vector<double> sends = crowd.exchange(Kind::kSends, seconds);
    const double after_traffic = crowd.memory_bytes_of_first();
    add_rates(report, "Writes", writes, seconds);
    add_rates(report, "Sends", sends, seconds);
    add_memory(report, "after traffic", after_traffic - alone, 256);
    add_memory(report, "before traffic", among_others - alone, 0);
}

} // namespace sluice::bench
