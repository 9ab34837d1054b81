// SPDX-License-Identifier: BSD-3-Clause
//
// The IP and UDP headers that the kernel puts before a packet, or has taken off what arrives. We
// know them entirely, except for the IPv4 identification of an arriving one; the ICRC, the forty
// bytes in front of a datagram and recordings need them.
#pragma once

#include "roce/socket/address.hpp"
#include "roce/wire/frame.hpp"

namespace sluice::roce::socket {

// With identification 0. TRANSPORT is what lies between the UDP header and the ICRC; what stands
// there is looked at only when the ICRC is computed.
inline wire::Frame frame_between(const engine::Address& source, const engine::Address& destination,
                                 std::uint16_t source_port, wire::ConstBytes transport) noexcept {
    const std::size_t udp_bytes = wire::UdpHeader::kBytes + transport.size() + wire::kIcrcBytes;
    wire::Frame frame;
    frame.transport = transport;
    frame.udp.source_port = source_port;
    frame.udp.length_bytes = static_cast<std::uint16_t>(udp_bytes);
    frame.is_ipv6 = !engine::is_ipv4(destination);
    if (frame.is_ipv6) {
        frame.ipv6.payload_bytes = static_cast<std::uint16_t>(udp_bytes);
        frame.ipv6.source = source.gid;
        frame.ipv6.destination = destination.gid;
    } else {
        frame.ipv4.total_bytes = static_cast<std::uint16_t>(wire::Ipv4Header::kBytes + udp_bytes);
        frame.ipv4.source = socket::ipv4_bytes(source);
        frame.ipv4.destination = socket::ipv4_bytes(destination);
    }
    return frame;
}

} // namespace sluice::roce::socket
