// SPDX-License-Identifier: BSD-3-Clause
//
// Counts a device's syncs where `sluice stat` reads them. Threads that sync at once must not take the same
// cache line from each other, so there are several places to add to, and a reader sees the sum. A thread
// finds its place by its stack: two that meet at one place may lose a call, which costs a number and nothing
// else.
//
// Thread safety: here() may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sync_counts.hpp"

namespace sluice::dapl {

class SyncCounters {
  public:
    SyncCounters(const char* device, const char* address) noexcept;
    ~SyncCounters();
    SyncCounters(const SyncCounters&) = delete;
    SyncCounters& operator=(const SyncCounters&) = delete;

    [[gnu::always_inline]] SyncCounts& here() noexcept {
        return *places_[place_of(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)))];
    }

  private:
    static constexpr unsigned kPlaceBits = 3;
    static constexpr unsigned kStackBits = 23; // 8 MiB, as far apart as stacks mostly are

    static std::size_t place_of(std::uint64_t stack) noexcept {
        return (stack >> kStackBits) % (std::size_t{1} << kPlaceBits);
    }

    std::array<SyncCounts*, std::size_t{1} << kPlaceBits> places_;
    SyncCounts unread_; // where there is no other place
};

} // namespace sluice::dapl
