// SPDX-License-Identifier: BSD-3-Clause
//
// The batches with which the benchmarks clean and invalidate.
#pragma once

#include <cstdint>

namespace sluice::bench {

struct Shape {
    const char* name;
    std::uint64_t count;
    std::uint64_t length;
    std::uint64_t stride;
    double naive_goal = 0; // at least that much faster than the naive way; 0: not asked for
};

inline constexpr Shape kShapes[] = {
    {"1 x 64 B", 1, 64, 64},
    {"16 x 64 B scattered", 16, 64, 4096 + 64, 10},
    {"256 x 16 B packed", 256, 16, 16},
    {"256 x 64 B scattered", 256, 64, 7 * 64, 10},
    {"256 x 200 B packed", 256, 200, 200},
    {"64 x 256 B scattered", 64, 256, 1024},
    {"1 x 4 KiB", 1, 4096, 4096},
    {"16 x 4 KiB packed", 16, 4096, 4096, 1.9},
    {"16 x 4 KiB scattered", 16, 4096, 8192},
    {"4 x 64 KiB scattered", 4, 65536, 131072},
    {"1 x 1 MiB", 1, 1 << 20, 1 << 20},
    {"1 x 16 MiB", 1, 16 << 20, 16 << 20},
};

inline constexpr std::uint64_t kLargestShape = 16 << 20;

} // namespace sluice::bench
