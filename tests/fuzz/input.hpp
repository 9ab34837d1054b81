// SPDX-License-Identifier: BSD-3-Clause
//
// A fuzzer's input as a list of decisions. Beyond its end everything is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace sluice::fuzz {

class Input {
  public:
    explicit Input(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
    bool empty() const { return rest_.empty(); }
    std::uint8_t byte() {
        if (rest_.empty()) {
            return 0;
        }
        const std::uint8_t first = rest_.front();
        rest_ = rest_.subspan(1);
        return first;
    }
    std::uint32_t word() { return static_cast<std::uint32_t>(byte() << 8 | byte()); }
    std::span<const std::uint8_t> take(std::size_t len) {
        const auto taken = rest_.first(std::min(len, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

  private:
    std::span<const std::uint8_t> rest_;
};

inline void must(bool holds) {
    if (!holds) {
        std::abort();
    }
}

} // namespace sluice::fuzz
