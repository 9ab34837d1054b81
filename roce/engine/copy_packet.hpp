// SPDX-License-Identifier: BSD-3-Clause
//
// A packet's bytes in one piece. The engine's packets may refer to the program's memory; what is made here
// doesn't.
#pragma once

#include <algorithm>
#include <cstring>

#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"

namespace sluice::roce::engine {

// Copies the payload, padding included. False: a page of it is gone.
inline bool copy_payload(const OutPacket& packet, Memory& memory, std::uint8_t* to) noexcept {
    for (std::uint32_t i = 0; i < packet.piece_count; ++i) {
        const iovec& piece = packet.pieces[i];
        if (packet.payload_is_ours) {
            std::memcpy(to, piece.iov_base, piece.iov_len);
        } else if (!memory.copy_out(to, reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len)) {
            return false;
        }
        to += piece.iov_len;
    }
    return true;
}

// Headers and payload, for which TO has room.
inline bool copy_packet(const OutPacket& packet, Memory& memory, wire::MutableBytes to) noexcept {
    if (packet.header_bytes == wire::Bth::kBytes) { // as of most: no call
        std::copy_n(packet.header.begin(), wire::Bth::kBytes, to.begin());
    } else {
        std::copy_n(packet.header.begin(), packet.header_bytes, to.begin());
    }
    return copy_payload(packet, memory, to.data() + packet.header_bytes);
}

} // namespace sluice::roce::engine
