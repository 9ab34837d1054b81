// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that libibverbs' inline functions call through tables, and ours in their place.
//
// All objects of a provider have the same functions, or one of a few sets. For each set there is a copy of
// ours that knows its number, so that a call needs no look at what object it is for: no table, no lock.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <optional>

#include "core/sync.hpp"

namespace sluice::layers::trace {

inline constexpr std::size_t kMostSets = 16; // of a kind of objects

// The provider's functions, by the number of their set.
template<typename Calls>
class Sets {
  public:
    // Nothing: there are too many sets.
    std::optional<std::size_t> number_of(const Calls& calls) noexcept {
        const LockGuard lock(mutex_);
        for (std::size_t i = 0; i < count_; ++i) {
            if (sets_[i] == calls) {
                return i;
            }
        }
        if (count_ == sets_.size()) {
            return std::nullopt;
        }
        sets_[count_] = calls;
        return count_++;
    }
    // A set that number_of() has given. The caller has an object that was made since, so that no lock is
    // needed.
    const Calls& operator[](std::size_t number) const noexcept { return sets_[number]; }

  private:
    Mutex mutex_;
    std::array<Calls, kMostSets> sets_ = {};
    std::size_t count_ SLUICE_TSA(guarded_by(mutex_)) = 0;
};

} // namespace sluice::layers::trace
