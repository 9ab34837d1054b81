// SPDX-License-Identifier: BSD-3-Clause
//
// A whole RoCEv2 packet from the IP header on, as a recording or a packet socket has it. The device
// itself receives from UDP sockets and meets neither IP nor UDP headers.
#pragma once

#include "roce/wire/icrc.hpp"
#include "roce/wire/packet.hpp"

namespace sluice::roce::wire {

struct Frame {
    bool is_ipv6 = false;
    Ipv4Header ipv4; // one of these two, by is_ipv6
    Ipv6Header ipv6;
    UdpHeader udp;
    ConstBytes transport;   // for parse(): BTH up to and with the padding
    std::uint32_t icrc = 0; // as it came

    std::size_t ip_bytes() const noexcept { return is_ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes; }
};

// DATAGRAM begins with the IP header; what follows the IP length (Ethernet's padding) is ignored.
// Doesn't look at the ICRC's value.
Refusal parse_frame(ConstBytes datagram, Frame& out) noexcept;

// What the ICRC of this frame must be. Its transport has at least a BTH, which parse_frame() grants.
std::uint32_t expected_icrc(const Frame& frame) noexcept;

// Writes IP and UDP headers with the lengths and checksum that TRANSPORT_BYTES asks for into OUT;
// returns their length, or 0 when OUT is too short. The frame's own lengths are not looked at.
std::size_t write_ip_udp(const Frame& frame, std::size_t transport_bytes, MutableBytes out) noexcept;

} // namespace sluice::roce::wire
