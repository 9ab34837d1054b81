// SPDX-License-Identifier: BSD-3-Clause
//
// A clock for "not again so soon", which costs a few nanoseconds and is only roughly right: the processor's
// counter, where a program may read it.
#pragma once

#include <time.h>

#include <cstdint>

namespace sluice {

inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t count = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

// As many as pass in 20 microseconds; on x86_64, where nobody says how fast it counts, in 10 to 40.
inline std::uint64_t ticks_of_20us() noexcept {
#if defined(__x86_64__)
    return 40'000;
#elif defined(__aarch64__)
    std::uint64_t per_second = 0;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(per_second));
    return per_second / 50'000;
#else
    return 20'000;
#endif
}

} // namespace sluice
