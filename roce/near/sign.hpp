// SPDX-License-Identifier: BSD-3-Clause
//
// What a process says to one neighbour about the rings between them. It stands on the process's own board,
// which others only read: a ring that nobody has written to is looked at by neither end, and has no memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::roce::near {

// Bits of the following ones.
using Sign = std::atomic<std::uint8_t>;
static_assert(Sign::is_always_lock_free);

// The ring that this process reads takes packets.
inline constexpr std::uint8_t kIsOpen = 1;
// This process has written to the ring that the neighbour reads.
inline constexpr std::uint8_t kHasWritten = 2;

inline bool says(const Sign& sign, std::uint8_t what) noexcept {
    return (sign.load(std::memory_order_relaxed) & what) != 0;
}

struct Signs {
    Sign& own;
    const Sign& neighbours;
};

} // namespace sluice::roce::near
