// SPDX-License-Identifier: BSD-3-Clause
//
// A packet that has arrived, and what is known of its way.
#pragma once

#include <optional>

#include "roce/engine/types.hpp"
#include "roce/wire/ip.hpp"
#include "roce/wire/packet.hpp"

namespace sluice::roce::engine {

struct InPacket {
    const wire::Packet& packet;
    Address source;
    Address destination;
    const wire::Grh& grh;          // looked at for UD only
    std::uint16_t source_port = 0; // of UDP; 0: it never was on a wire
    // Its sender is to be told that no receive is there. A test's wish: whether one is, isn't looked at.
    bool not_ready = false;
    bool through_memory = false; // of a process of this host
    std::optional<std::uint32_t> acknowledged_psn{};
};

} // namespace sluice::roce::engine
