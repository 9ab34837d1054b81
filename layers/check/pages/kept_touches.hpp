// SPDX-License-Identifier: BSD-3-Clause
//
// Touches that were caught and not taken yet, oldest first.
//
// Thread safety: is_empty() and has_lost() from any thread, where a late answer does no harm; the others
// under one lock of the owner's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "layers/check/pages/touch.hpp"

namespace sluice::layers::check::pages {

class KeptTouches {
  public:
    bool is_empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
    // Some found no room.
    bool has_lost() const noexcept { return has_lost_.load(std::memory_order_relaxed); }

    void add(const Touch& touch) noexcept {
        const std::size_t count = count_.load(std::memory_order_relaxed);
        if (count == touches_.size()) {
            has_lost_.store(true, std::memory_order_relaxed);
            return;
        }
        touches_[(first_ + count) % touches_.size()] = touch;
        count_.store(count + 1, std::memory_order_relaxed);
    }

    bool take(Touch& touch) noexcept {
        const std::size_t count = count_.load(std::memory_order_relaxed);
        if (count == 0) {
            return false;
        }
        touch = touches_[first_];
        first_ = (first_ + 1) % touches_.size();
        count_.store(count - 1, std::memory_order_relaxed);
        return true;
    }

    void clear() noexcept { count_.store(0, std::memory_order_relaxed); }

  private:
    std::array<Touch, 64> touches_ = {};
    std::size_t first_ = 0;
    std::atomic<std::size_t> count_ = 0;
    std::atomic<bool> has_lost_ = false;
};

} // namespace sluice::layers::check::pages
