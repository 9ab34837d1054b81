// SPDX-License-Identifier: BSD-3-Clause
//
// What uroce takes of memory: the resident size of a process of its own, before and after.
#include <memory>

#include "tests/bench/resident.hpp"
#include "tests/bench/uroce.hpp"
#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

namespace {

struct Sizes {
    double context_bytes;
    double second_context_bytes;
    double queue_pair_bytes;
    double growth_bytes;
};

void write_many(End& from, int count, int under_way = 16) {
    int posted = 0;
    for (int done = 0; done < count;) {
        for (; posted < count && posted - done < under_way; ++posted) {
            from.post_write(4096);
        }
        done += from.poll(16);
    }
}

// Queue pairs with a send queue of one request, so that what they take beside it shows.
double queue_pair_bytes(const Context& one, const Context& other, const Buffer& memory) {
    constexpr std::size_t kPairs = 500;
    std::vector<std::unique_ptr<End>> ends;
    ends.reserve(2 * kPairs);
    const double before = resident_bytes();
    for (std::size_t i = 0; i < kPairs; ++i) {
        ends.push_back(std::make_unique<End>(one, memory, 1));
        ends.push_back(std::make_unique<End>(other, memory, 1));
        connect(*ends[2 * i], *ends[2 * i + 1]);
        write_many(*ends[2 * i], 4, 1);
    }
    return (resident_bytes() - before) / (2 * kPairs);
}

Sizes measure(bool quick) {
    const Buffer memory(4096);
    { // libibverbs and everything that is loaded once
        const Context first(own_address(2));
    }
    const double before = resident_bytes();
    const Context one(own_address(0));
    const double with_one = resident_bytes();
    const Context other(own_address(1));
    const double with_two = resident_bytes();
    End from(one, memory);
    End to(other, memory);
    connect(from, to);
    write_many(from, 10000);
    const double warm = resident_bytes();
    write_many(from, quick ? 20000 : 200000);
    const double after = resident_bytes();
    return {.context_bytes = with_one - before,
            .second_context_bytes = with_two - with_one,
            .queue_pair_bytes = queue_pair_bytes(one, other, memory),
            .growth_bytes = after - warm};
}

} // namespace

void memory_figures(Report& report) {
    const Sizes sizes = in_own_process([&] { return measure(report.quick()); });
    constexpr double kKib = 1024;
    report.add({.name = "memory of an idle context",
                .value = sizes.context_bytes / kKib,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = 4096});
    report.add({.name = "memory of a context on one more address",
                .value = sizes.second_context_bytes / kKib,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = 4096});
    report.add({.name = "memory of a connected queue pair, its CQ, PD and MR",
                .value = sizes.queue_pair_bytes / kKib,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = 16});
    report.add({.name = "memory that traffic adds, once it flows",
                .value = sizes.growth_bytes / kKib,
                .unit = "KiB",
                .kind = Goal::kAtMost,
                .goal = 0});
}

} // namespace sluice::bench
