// SPDX-License-Identifier: BSD-3-Clause
//
// Packets that a fault schedule holds back. What they refer to is copied, since the program gets its
// memory back meanwhile.
//
// Not thread safe. Holding a packet allocates: this is for tests of programs, and nothing else delays.
#pragma once

#include <memory>
#include <vector>

#include "roce/engine/memory.hpp"
#include "roce/engine/out_packet.hpp"

namespace sluice::roce::socket {

class DelayLine {
  public:
    static constexpr std::size_t kMostPackets = 4096;

    // Until the time is DUE. False: the payload is gone, or there are too many: the packet is lost.
    bool hold(const engine::OutPacket& packet, engine::Memory& memory, engine::Nanoseconds due) noexcept;
    // The packet that is due first, if it is due; its payload is good until the next call. Of those due
    // at the same time the one held first.
    bool release(engine::OutPacket& out, engine::Nanoseconds now) noexcept;
    engine::Nanoseconds next_deadline() const noexcept;

  private:
    struct Held {
        engine::Nanoseconds due = 0;
        std::unique_ptr<std::uint8_t[]> payload;
        engine::OutPacket packet;
    };

    bool try_hold(const engine::OutPacket& packet, engine::Memory& memory, engine::Nanoseconds due);

    std::vector<std::unique_ptr<Held>> held_; // in the order in which they are due
    std::unique_ptr<Held> released_;
};

} // namespace sluice::roce::socket
