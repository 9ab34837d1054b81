// SPDX-License-Identifier: BSD-3-Clause
//
// A packet on its way out: header bytes of ours, and the payload as pieces of memory, which is the program's
// as a rule. The port adds IP, UDP and ICRC.
//
// Nothing is copied but a short payload, which is read once and kept here: that costs less than to ask now
// whether its pages are there, and to be ready later for one that is gone.
//
// The pieces are good until the engine takes in a packet or the time, or settles: then requests
// complete, and the program may take its memory back or post again over inline data. Between, more
// packets may be pulled, so that a port can gather a batch; it has sent, copied or dropped all of
// them before it calls settle().
//
// The packet is also there as it was before it was written to bytes, for a peer in this process.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>

#include "roce/engine/types.hpp"
#include "roce/wire/packet.hpp"

namespace sluice::roce::engine {

// Payloads of up to so many bytes are read at once.
inline constexpr std::uint32_t kCopiedBytes = 64;

struct OutPacket {
    wire::Packet packet; // without its payload, which are the pieces
    std::array<std::uint8_t, wire::kMaxHeaderBytes> header{};
    std::uint32_t header_bytes = 0;
    std::array<iovec, kMaxSge + 1> pieces{}; // the last may be the padding
    std::uint32_t piece_count = 0;
    std::uint32_t payload_bytes = 0; // of the pieces, padding included
    bool payload_is_ours = false;    // no piece is memory of the program's, which may be gone
    // A short payload, and a piece then. A copy of this object still refers to the original's.
    std::array<std::uint8_t, kCopiedBytes> copied{};
    Address source;
    Address destination;
    std::uint32_t source_qpn = 0; // its queue pair's number, set by the engine
    bool through_memory = false;  // if there is such a way; the other packets of its queue pair go there, too
    // A request's that goes through memory: acknowledges those of the peer up to this one.
    std::optional<std::uint32_t> acknowledged_psn{};

    wire::Packet& begin() noexcept {
        header_bytes = piece_count = payload_bytes = 0;
        through_memory = payload_is_ours = false;
        acknowledged_psn.reset();
        packet = {};
        return packet;
    }
    void add_piece(std::uint64_t host_addr, std::uint32_t len_bytes) noexcept {
        pieces[piece_count++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(host_addr)), len_bytes};
        payload_bytes += len_bytes;
    }
    // Sets the padding for the pieces so far, and writes the header.
    void finish() noexcept {
        static const std::array<std::uint8_t, 4> zeros{};
        packet.bth.pad = wire::padding(payload_bytes);
        if (packet.bth.pad != 0) {
            add_piece(reinterpret_cast<std::uintptr_t>(zeros.data()), packet.bth.pad);
        }
        header_bytes = static_cast<std::uint32_t>(wire::write_headers(packet, header));
    }
};

} // namespace sluice::roce::engine
