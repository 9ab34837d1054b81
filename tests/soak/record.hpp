// SPDX-License-Identifier: BSD-3-Clause
//
// What a lane's processes count, in memory that the program that has started them sees.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::test::soak {

// Of a process between two steps.
struct Resources {
    std::uint64_t descriptors = 0;
    std::uint64_t maps = 0;
    std::uint64_t anonymous_kib = 0; // resident
    std::uint64_t threads = 0;
};
Resources measure_resources();

// Written by the lane's leader alone.
struct LaneRecord {
    std::atomic<std::uint64_t> step{0}; // under way, or the next one
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> messages{0};
    std::atomic<std::uint64_t> datagrams{0};
    std::atomic<std::uint64_t> connections{0};
    std::atomic<std::uint64_t> refusals{0};
    std::atomic<std::uint64_t> kills{0};
    std::atomic<std::uint64_t> stops{0};
    std::atomic<std::uint64_t> faulty_steps{0};
    std::atomic<std::uint64_t> programs{0};
    std::atomic<std::uint64_t> slowest_report_us{0}; // of a death
    std::atomic<std::uint32_t> is_ready{0};
    std::atomic<std::uint32_t> measured{0}; // 1: FIRST is there, 2: LAST, too
    Resources first{};                      // the most that it had in its first steps
    Resources last{};
};

inline constexpr unsigned kMaxLanes = 16;

struct Shared {
    std::atomic<std::uint32_t> may_begin{0};
    std::atomic<std::uint32_t> must_end{0};
    LaneRecord lanes[kMaxLanes];
};

} // namespace sluice::test::soak
