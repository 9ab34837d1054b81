// SPDX-License-Identifier: BSD-3-Clause
//
// The addresses of a device, each an entry of its port's GID table. Entry 0 is the device's home, by which
// processes find each other (ADR 63).
//
// An entry whose address has gone is empty from then on, so that no index changes its meaning. The next
// address takes it.
//
// Thread safety: follow() and take() in one thread at a time; everything else in any thread, and without a
// lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::device {

class GidTable {
  public:
    static constexpr std::size_t kMostEntries = 16;

    GidTable(const engine::Address& home, std::span<const engine::Address> further) noexcept;
    GidTable(const GidTable&) = delete;
    GidTable& operator=(const GidTable&) = delete;

    // Behind the last entry. It never becomes less.
    std::size_t length() const noexcept {
        return length_.load(std::memory_order_acquire); // partner: the release in put()
    }
    // Null: there is no entry at INDEX, or an empty one. The address stays as long as the table.
    const engine::Address* at(std::size_t index) const noexcept {
        // Partner: the releases in put() and follow().
        return index < length() ? entries_[index].load(std::memory_order_acquire) : nullptr;
    }
    // Null: ADDRESS is no entry.
    const engine::Address* find(const engine::Address& address) const noexcept;

    // From now on the entries are PRESENT, as far as there is room. True: some were others.
    bool follow(std::span<const engine::Address> present) noexcept;
    // Another address can become an entry.
    bool has_room() const noexcept;
    // ADDRESS is an entry from now on, if there is room.
    void take(const engine::Address& address) noexcept;

  private:
    // Of all that were entries, so that a thread that holds one needs no lock.
    static constexpr std::size_t kMostKnown = 256;

    bool add(const engine::Address& address) noexcept;
    const engine::Address* keep(const engine::Address& address) noexcept;
    void put(std::size_t index, const engine::Address* address) noexcept;

    std::array<engine::Address, kMostKnown> known_{};
    std::size_t known_count_ = 0;
    std::array<std::atomic<const engine::Address*>, kMostEntries> entries_{};
    std::atomic<std::size_t> length_{0};
};

} // namespace sluice::uroce::device
