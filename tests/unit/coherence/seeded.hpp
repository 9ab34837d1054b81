// SPDX-License-Identifier: BSD-3-Clause
//
// Random tests that can be run again: TEST [SEED [COUNT]]. The seed is printed; without one it
// is always the same.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdlib>

#include "tests/cmocka.hpp"

namespace sluice::testing {

// SplitMix64: the same numbers everywhere, which the library's distributions don't promise.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
        return mixed ^ mixed >> 31;
    }
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

    template<typename T, std::size_t kSize>
    const T& of(const T (&choices)[kSize]) {
        return choices[below(kSize)];
    }

  private:
    std::uint64_t state_;
};

struct Seeded {
    std::uint64_t seed;
    std::uint64_t count;

    Seeded(int argc, char** argv, std::uint64_t default_count)
        : seed(argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 20030214),
          count(argc > 2 ? std::strtoull(argv[2], nullptr, 0) : default_count) {
        print_message("seed %" PRIu64 ", %" PRIu64 " rounds\n", seed, count);
    }
};

} // namespace sluice::testing
