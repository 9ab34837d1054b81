// SPDX-License-Identifier: BSD-3-Clause
//
// A packet in one piece, as it goes on the wire behind the UDP header: transport headers, payload and
// ICRC. The engine's packets may refer to the program's memory; what is made here doesn't.
#pragma once

#include "roce/engine/copy_packet.hpp"
#include "roce/socket/datagram_frame.hpp"

namespace sluice::roce::socket {

// BTH and what follows, a payload of the largest MTU with its padding, and the ICRC.
inline constexpr std::size_t kMaxPacketBytes = wire::kMaxHeaderBytes + 4096 + 3 + wire::kIcrcBytes;

constexpr std::size_t flat_bytes(const engine::OutPacket& packet) noexcept {
    return std::size_t{packet.header_bytes} + packet.payload_bytes + wire::kIcrcBytes;
}

// Computes the ICRC of PACKET and writes it at its end. Returns the frame that it was computed for.
inline wire::Frame seal(wire::MutableBytes packet, const engine::Address& source,
                        const engine::Address& destination, std::uint16_t identification) noexcept {
    wire::Frame frame =
        frame_between(source, destination, wire::kRocePort, packet.first(packet.size() - wire::kIcrcBytes));
    frame.ipv4.identification = identification;
    wire::icrc_store(wire::expected_icrc(frame), packet.last<wire::kIcrcBytes>());
    return frame;
}

} // namespace sluice::roce::socket
