// SPDX-License-Identifier: BSD-3-Clause
//
// The invariant CRC at the end of each RoCEv2 packet (IBTA vol 1, 7.8.1, and annex A17): the
// CRC-32 over everything that no router changes. What one may change counts as ones: type of
// service or traffic class and flow label, time to live, IP and UDP checksums, and the byte of the
// BTH with the congestion marks; in front stand eight bytes of ones for the header that InfiniBand
// would have. It is stored little endian, unlike everything else.
//
//     std::uint32_t state = icrc_begin(ip, udp, bth_bytes);
//     state = crc32_update(state, rest_of_headers);  // as many pieces as you like
//     state = crc32_update(state, payload_and_padding);
//     icrc_store(icrc_end(state), out);
//
// The IPv4 identification is covered, and a UDP socket doesn't tell it. Because a CRC is linear, the
// difference between the ICRC that came and the one for identification 0 is the contribution of the
// sixteen unknown bits alone, moved by the length of what follows. Moved back, either it is in the
// image of those sixteen bits, which gives the identification, or the packet is damaged;
// a random difference passes with 2^-16. solve_identification() does that in constant time.
#pragma once

#include <optional>

#include "roce/wire/crc32.hpp"
#include "roce/wire/headers.hpp"
#include "roce/wire/ip.hpp"

namespace sluice::roce::wire {

inline constexpr std::size_t kIcrcBytes = 4;

std::uint32_t icrc_begin(const Ipv4Header& ip, const UdpHeader& udp,
                         std::span<const std::uint8_t, Bth::kBytes> bth) noexcept;
std::uint32_t icrc_begin(const Ipv6Header& ip, const UdpHeader& udp,
                         std::span<const std::uint8_t, Bth::kBytes> bth) noexcept;

constexpr std::uint32_t icrc_end(std::uint32_t state) noexcept {
    return ~state;
}

constexpr void icrc_store(std::uint32_t icrc, std::span<std::uint8_t, kIcrcBytes> out) noexcept {
    for (std::size_t i = 0; i < kIcrcBytes; ++i) {
        out[i] = static_cast<std::uint8_t>(icrc >> (8 * i));
    }
}

constexpr std::uint32_t icrc_load(std::span<const std::uint8_t, kIcrcBytes> from) noexcept {
    std::uint32_t icrc = 0;
    for (std::size_t i = 0; i < kIcrcBytes; ++i) {
        icrc |= std::uint32_t{from[i]} << (8 * i);
    }
    return icrc;
}

// The identification for which RECEIVED is right, given EXPECTED_FOR_ZERO, the ICRC that the packet
// would have with identification 0. TRANSPORT_BYTES is the UDP payload without the ICRC, at most
// 65535. None: no identification fits, the packet is damaged.
std::optional<std::uint16_t> solve_identification(std::uint32_t received, std::uint32_t expected_for_zero,
                                                  std::size_t transport_bytes) noexcept;

} // namespace sluice::roce::wire
