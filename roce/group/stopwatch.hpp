// SPDX-License-Identifier: BSD-3-Clause
//
// How long a caller has waited for another process, and a pause between two looks.
#pragma once

#include <time.h>

#include <cstdint>

namespace sluice::roce::group {

class Stopwatch {
  public:
    Stopwatch() noexcept : start_(now()) {}
    int passed_ms() const noexcept { return static_cast<int>(now() - start_); }

    static void pause() noexcept {
        const timespec nap{.tv_sec = 0, .tv_nsec = 1'000'000};
        nanosleep(&nap, nullptr);
    }

  private:
    static std::int64_t now() noexcept {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
    }
    std::int64_t start_;
};

} // namespace sluice::roce::group
