// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a load overtakes the flush before it, on the x86-64 that runs this.
//
// The caches here are coherent, so that no value tells. What tells is where the line is afterwards. A load
// that came after the flush has fetched the line again: it is in the cache. A load that overtook the flush
// was served from the cache, and then the flush took the line away: the next load is slow. MFENCE stands in
// front of that next load, so that everything before it is over. What is slow is measured first, on lines
// that were flushed, and on lines that weren't.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace sluice::testing {

class Litmus {
  public:
    enum class State { kClean, kDirty };

    Litmus() {
        void* const pages =
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (pages == MAP_FAILED) {
            std::perror("mmap");
            std::exit(1);
        }
        data_ = static_cast<char*>(pages);
        calibrate();
    }
    ~Litmus() { munmap(data_, kBytes); }
    Litmus(const Litmus&) = delete;
    Litmus& operator=(const Litmus&) = delete;

    // False: a load from the cache and one from memory can't be told apart here, and nothing below means
    // anything.
    bool can_tell() const { return slow_ > fast_ * 2; }
    double fast_ticks() const { return fast_; }
    double slow_ticks() const { return slow_; }

    // How often of TRIES the line is gone after BETWEEN(line) and MFENCE, as a part of 1.
    template<typename Between>
    double gone_after(State state, int tries, Between&& between) {
        int gone = 0;
        for (int i = 0; i < tries; ++i) {
            char* const line = next_line();
            make(line, state);
            between(line);
            full_fence();
            gone += static_cast<double>(ticks_of_load(line)) > threshold_ ? 1 : 0;
        }
        return static_cast<double>(gone) / tries;
    }

    // For the end of BETWEEN: the load that may overtake.
    static void load(const char* line) {
        char ignored = 0;
        asm volatile("movb (%1), %0" : "=q"(ignored) : "r"(line) : "memory");
    }
    static void clflush(const char* line) { asm volatile("clflush (%0)" ::"r"(line) : "memory"); }

  private:
    static constexpr std::size_t kPages = 64;
    static constexpr std::size_t kPageBytes = 4096;
    static constexpr std::size_t kBytes = kPages * kPageBytes;

    static void full_fence() { asm volatile("mfence" ::: "memory"); }

    // Another page each time, and a line whose neighbours nobody loads: prefetchers find no pattern.
    char* next_line() {
        at_ = at_ * 6364136223846793005u + 1442695040888963407u;
        return data_ + (at_ >> 33) % kPages * kPageBytes + (at_ >> 45) % (kPageBytes / 64) * 64;
    }

    static void make(char* line, State state) {
        load(line);
        if (state == State::kDirty) {
            *static_cast<volatile char*>(line) = 1;
        }
        full_fence();
    }

    static std::uint64_t ticks_of_load(const char* line) {
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        asm volatile("lfence\nrdtsc\nlfence" : "=a"(low), "=d"(high)::"memory");
        const std::uint64_t start = std::uint64_t{high} << 32 | low;
        load(line);
        asm volatile("lfence\nrdtsc\nlfence" : "=a"(low), "=d"(high)::"memory");
        return (std::uint64_t{high} << 32 | low) - start;
    }

    template<typename Between>
    double median_ticks(Between&& between) {
        std::vector<double> ticks(2001);
        for (double& one : ticks) {
            char* const line = next_line();
            make(line, State::kClean);
            between(line);
            full_fence();
            one = static_cast<double>(ticks_of_load(line));
        }
        std::nth_element(ticks.begin(), ticks.begin() + 1000, ticks.end());
        return ticks[1000];
    }

    void calibrate() {
        fast_ = median_ticks([](char*) {});
        slow_ = median_ticks([](char* line) { clflush(line); });
        threshold_ = std::sqrt(fast_ * slow_);
    }

    char* data_;
    std::uint64_t at_ = 1;
    double fast_ = 0;
    double slow_ = 0;
    double threshold_ = 0;
};

} // namespace sluice::testing
