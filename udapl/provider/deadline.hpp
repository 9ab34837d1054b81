// SPDX-License-Identifier: BSD-3-Clause
//
// Points in time, and DAT's timeouts, which are microseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace sluice::dapl {

constexpr std::uint32_t kForever = 0xffff'ffff;
constexpr std::uint64_t kNever = UINT64_MAX;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

// Of the monotonic clock.
inline std::uint64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
           static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t deadline_ns(std::uint32_t timeout_us) noexcept {
    return timeout_us == kForever ? kNever : now_ns() + timeout_us * std::uint64_t{1000};
}

// The time until DEADLINE, for ppoll(): null when that never comes.
inline const timespec* left_until(std::uint64_t deadline, timespec& storage) noexcept {
    if (deadline == kNever) {
        return nullptr;
    }
    const std::uint64_t now = now_ns();
    const std::uint64_t left = now < deadline ? deadline - now : 0;
    storage = {static_cast<time_t>(left / kNanosecondsPerSecond),
               static_cast<long>(left % kNanosecondsPerSecond)};
    return &storage;
}

} // namespace sluice::dapl
