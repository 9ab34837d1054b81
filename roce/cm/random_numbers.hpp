// SPDX-License-Identifier: BSD-3-Clause
//
// The numbers that a connection manager makes up: ids, transactions, sequence numbers, ports. They follow
// from the seed, so that a test can repeat a history.
//
// Not thread safe.
#pragma once

#include <cstdint>

#include "roce/engine/draw.hpp"

namespace sluice::roce::cm {

class RandomNumbers {
  public:
    explicit RandomNumbers(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint32_t draw() noexcept { return engine::draw(state_); }
    std::uint64_t draw_64() noexcept {
        const std::uint64_t upper = draw();
        return upper << 32 | draw();
    }

  private:
    std::uint64_t state_;
};

} // namespace sluice::roce::cm
