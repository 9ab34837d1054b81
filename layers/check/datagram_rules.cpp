// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/datagram_rules.hpp"

#include <algorithm>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::uint64_t kHeaderBytes = 40;

std::uint64_t bytes_of(const SendParts& parts) noexcept {
    std::uint64_t bytes = parts.inline_bytes;
    for (const ibv_sge& piece : std::span(parts.pieces, parts.count)) {
        bytes += piece.length;
    }
    return bytes;
}

// The queue pair that gets it. Null: it may be anybody's.
std::shared_ptr<QueuePair> receiver_of(const QueuePair& pair, const SendParts& parts) noexcept {
    const auto handle = Registry::instance().address_handles.find(parts.address_handle);
    if (handle == nullptr || !handle->is_own_address) {
        return nullptr;
    }
    const auto found = Registry::instance().pairs_by_number.find({pair.context->verbs, parts.remote_number});
    return found != nullptr && found->type == IBV_QPT_UD ? found : nullptr;
}

void tell_q_key(const QueuePair& pair, const QueuePair& to, const SendParts& parts, Place place) noexcept {
    tell("wrong-q-key", {{"the datagram was posted", place}, {"its receiver got its Q_Key", to.q_key_set}},
         [&] {
             return Told{"a datagram of " + name_of(pair),
                         "its Q_Key " + hex(parts.remote_q_key) + " isn't that of " + name_of(to) + ", " +
                             hex(static_cast<std::uint64_t>(to.q_key.load())) + ": the device drops it",
                         "send with the Q_Key that the receiver was given by ibv_modify_qp()"};
         });
}

// Right where a program wakes itself, or has itself among its peers.
void tell_itself(const QueuePair& pair, Place place) noexcept {
    tell("datagram-to-itself",
         {{"the datagram was posted", place}, {"a datagram came before", pair.arrived_last.load()}}, [&] {
             return Told{"a datagram of " + name_of(pair),
                         "it goes to the queue pair that sends it, which has received others: a completion's "
                         "qp_num is the receiver's own number",
                         "answer to src_qp of the completion"};
         });
}

// The longest of the receives that may be outstanding, and where it was posted. A null place: there is none.
struct Room {
    std::uint64_t bytes = 0;
    Place posted = nullptr;
};

// What isn't memory that is known may have any length.
Room longest_receive(QueuePair& to) noexcept {
    Room longest;
    const LockGuard lock(to.mutex);
    for (std::size_t i = 0; i < to.receives.size(); ++i) {
        const Request& receive = to.receives[i];
        std::uint64_t bytes = 0;
        for (const Piece& piece : receive.watched()) {
            bytes += piece.length;
        }
        if (receive.pieces_count != 1) {
            return {}; // several, or none that is known
        }
        if (longest.posted == nullptr || bytes > longest.bytes) {
            longest = {bytes, receive.posted};
        }
    }
    return longest;
}

void tell_room(const QueuePair& pair, const QueuePair& to, std::uint64_t bytes, const Room& room,
               Place place) noexcept {
    tell("no-room-for-datagram",
         {{"the receive was posted", room.posted}, {"the datagram was posted", place}}, [&] {
             return Told{"the receives of " + name_of(to),
                         "a datagram of " + std::to_string(bytes) + " bytes from " + name_of(pair) +
                             " needs 40 more for its header, and no receive has more than " +
                             std::to_string(room.bytes) + ": the device drops it",
                         "post receives that have 40 bytes in front of the longest message"};
         });
}

} // namespace

void check_datagram(const QueuePair& pair, const SendParts& parts, Place place) noexcept {
    constexpr std::uint32_t kOwnQKey = 0x80000000; // that of the sender's queue pair is meant
    (void)at_boundary("check", [&]() -> Result<void> {
        const std::shared_ptr<QueuePair> to =
            parts.address_handle != nullptr ? receiver_of(pair, parts) : nullptr;
        if (to == nullptr) {
            return {};
        }
        if (to.get() == &pair && report::depth() == report::Depth::kPedantic &&
            pair.arrived_last.load() != nullptr) {
            tell_itself(pair, place);
            return {};
        }
        const std::int64_t q_key = to->q_key.load();
        if (q_key >= 0 && (parts.remote_q_key & kOwnQKey) == 0 && parts.remote_q_key != q_key) {
            tell_q_key(pair, *to, parts, place);
            return {};
        }
        const Room room = to->shared == nullptr ? longest_receive(*to) : Room{};
        if (room.posted != nullptr && room.bytes < bytes_of(parts) + kHeaderBytes) {
            tell_room(pair, *to, bytes_of(parts), room, place);
        }
        return {};
    });
}

} // namespace sluice::layers::check
