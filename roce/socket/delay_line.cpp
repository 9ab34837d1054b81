// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/delay_line.hpp"

#include <algorithm>

#include "core/boundary.hpp"
#include "roce/socket/flat_packet.hpp"

namespace sluice::roce::socket {
bool DelayLine::hold(const engine::OutPacket& packet, engine::Memory& memory,
                     engine::Nanoseconds due) noexcept {
    const Result<bool> held =
        at_boundary("delaying a packet", [&]() -> Result<bool> { return try_hold(packet, memory, due); });
    return held && *held;
}

bool DelayLine::try_hold(const engine::OutPacket& packet, engine::Memory& memory, engine::Nanoseconds due) {
    if (held_.size() == kMostPackets) {
        return false;
    }
    auto held = std::make_unique<Held>();
    held->due = due;
    held->payload = std::make_unique<std::uint8_t[]>(packet.payload_bytes + std::size_t{1});
    held->packet = packet;
    if (!copy_payload(packet, memory, held->payload.get())) {
        return false;
    }
    held->packet.pieces[0] = {held->payload.get(), packet.payload_bytes};
    held->packet.piece_count = packet.payload_bytes != 0 ? 1 : 0;
    const auto later = std::ranges::upper_bound(held_, due, {}, [](const auto& one) { return one->due; });
    held_.insert(later, std::move(held));
    return true;
}

bool DelayLine::release(engine::OutPacket& out, engine::Nanoseconds now) noexcept {
    if (next_deadline() > now) {
        return false;
    }
    released_ = std::move(held_.front());
    held_.erase(held_.begin());
    out = released_->packet;
    return true;
}

engine::Nanoseconds DelayLine::next_deadline() const noexcept {
    return held_.empty() ? engine::kNever : held_.front()->due;
}

} // namespace sluice::roce::socket
