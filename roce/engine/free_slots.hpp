// SPDX-License-Identifier: BSD-3-Clause
//
// The free slots of a table, given out in an order that nobody can guess: where a slot's index is a part of a
// number on the wire, that part is as random as the rest. Not thread safe.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "core/random.hpp"

namespace sluice::roce::engine {

class FreeSlots {
  public:
    FreeSlots(std::uint32_t count, const RandomKey& key) : slots_(count), random_(key) {
        std::iota(slots_.begin(), slots_.end(), 0);
    }

    bool empty() const noexcept { return slots_.empty(); }

    std::optional<std::uint32_t> take() noexcept {
        if (slots_.empty()) {
            return std::nullopt;
        }
        std::swap(slots_[random_.draw_below(static_cast<std::uint32_t>(slots_.size()))], slots_.back());
        const std::uint32_t slot = slots_.back();
        slots_.pop_back();
        return slot;
    }
    // A slot that was taken: there is room for it.
    void give_back(std::uint32_t slot) noexcept { slots_.push_back(slot); }

  private:
    std::vector<std::uint32_t> slots_;
    RandomStream random_;
};

} // namespace sluice::roce::engine
