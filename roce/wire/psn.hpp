// SPDX-License-Identifier: BSD-3-Clause
//
// Packet sequence numbers: 24 bits that wrap (IBTA vol 1, 9.7.2). A number is ahead
// of another when the distance, modulo 2^24, is below 2^23; so at most 2^23 may be in flight.
#pragma once

#include <cstdint>

namespace sluice::roce::wire {

inline constexpr std::uint32_t kPsnMask = 0xffffff;
inline constexpr std::uint32_t kQpnMask = 0xffffff;

constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t count) noexcept {
    return (psn + count) & kPsnMask;
}

// How far A is ahead of B; negative when it is behind. In [-2^23, 2^23).
constexpr std::int32_t psn_distance(std::uint32_t a, std::uint32_t b) noexcept {
    const std::uint32_t ahead = (a - b) & kPsnMask;
    return ahead < 0x800000 ? static_cast<std::int32_t>(ahead) : static_cast<std::int32_t>(ahead) - 0x1000000;
}

static_assert(psn_distance(0, 0xffffff) == 1 && psn_distance(0xffffff, 0) == -1);
static_assert(psn_distance(0x7fffff, 0) == 0x7fffff && psn_distance(0x800000, 0) == -0x800000);

} // namespace sluice::roce::wire
