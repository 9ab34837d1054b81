// SPDX-License-Identifier: BSD-3-Clause
//
// How long a caller has waited for another process, and a pause between two looks.
#pragma once

#include <time.h>

#include <cstdint>

namespace sluice::roce::group {

class Stopwatch {
  public:
    Stopwatch() noexcept : start_ms_(now_ms()) {}
    int passed_ms() const noexcept { return static_cast<int>(now_ms() - start_ms_); }

    // On a clock that all processes share, but in a time namespace of their own.
    static std::int64_t now_ms() noexcept {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
    }

    static void pause() noexcept {
        const timespec nap{.tv_sec = 0, .tv_nsec = 1'000'000};
        nanosleep(&nap, nullptr);
    }

  private:
    std::int64_t start_ms_;
};

} // namespace sluice::roce::group
