// SPDX-License-Identifier: BSD-3-Clause
//
// The connections that a manager knows, each in a slot: their ids, the keys under which peers and queue pairs
// name them, their deadlines, and the list of those that go first when there is no room.
//
// Memory is bounded by the number of slots, all of it allocated at the beginning but the connections
// themselves. Not thread safe.
#pragma once

#include <memory>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/result.hpp"
#include "roce/cm/connection.hpp"
#include "roce/cm/peer_index.hpp"
#include "roce/engine/deadlines.hpp"
#include "roce/engine/free_slots.hpp"

namespace sluice::roce::cm {

class Connections {
  public:
    Connections(const ManagerConfig& config, ManagerCounters& counters);

    // In any state, those included that nobody holds any more.
    std::uint32_t live() const noexcept { return live_; }

    // Null when there is no room.
    Connection* make(const engine::Address& local, const engine::Address& peer) noexcept;
    void release(Connection& c) noexcept;

    // Null if there is none by this name.
    Connection* find(std::uint32_t comm_id) const noexcept;
    // The program's name; an error once it has let go of the connection.
    Result<Connection*> get(ConnectionId id) const;
    // The passive side's connection, by what its peer called it.
    Connection* find_passive(const engine::Address& peer, std::uint32_t remote_comm_id,
                             bool datagram) const noexcept;
    // The connection that holds this queue pair of the peer's, or of ours.
    Connection* find_by_peer_qpn(const engine::Address& peer, std::uint32_t qpn) const noexcept;
    Connection* find_by_qpn(std::uint32_t qpn) const noexcept;

    // Calls VISIT(connection) for each, as long as it returns true.
    template<typename Visit>
    void for_each(Visit&& visit) {
        for (const std::unique_ptr<Connection>& slot : slots_) {
            if (slot != nullptr && !visit(*slot)) {
                return;
            }
        }
    }

    // From now on C is found by its remote_comm_id, its peer_qpn or its qpn; and not any more.
    void index_remote_id(const Connection& c) noexcept;
    void index_peer_qpn(const Connection& c) noexcept;
    void index_qpn(const Connection& c) noexcept;
    void forget_remote_id(const Connection& c) noexcept { by_remote_id_.erase(slot_of(c)); }
    void forget_peer_qpn(const Connection& c) noexcept { by_remote_qpn_.erase(slot_of(c)); }
    void forget_keys(const Connection& c) noexcept;

    // C is in time-wait, and nobody holds it: it is released where there is no room for another one.
    void append_orphan(Connection& c) noexcept;

    void set_deadline(const Connection& c, engine::Nanoseconds at) noexcept {
        deadlines_.set(slot_of(c), at);
    }
    engine::Nanoseconds next_deadline() const noexcept { return deadlines_.next(); }
    // The connection whose deadline is next; there is one.
    Connection& first_due() const noexcept { return *slots_[deadlines_.next_index()]; }

  private:
    static constexpr std::uint32_t kNobody = Connection::kNobody;

    std::uint32_t slot_of(const Connection& c) const noexcept { return c.comm_id & slot_mask_; }
    Connection* at(std::uint32_t slot) const noexcept;
    std::uint32_t new_comm_id(std::uint32_t slot) noexcept;
    bool make_room() noexcept;
    void remove_orphan(Connection& c) noexcept;

    ManagerCounters& counters_;
    std::vector<std::unique_ptr<Connection>> slots_; // by the low bits of the comm id
    std::uint32_t slot_mask_;
    std::vector<std::uint32_t> lives_; // that each slot has had
    engine::FreeSlots free_slots_;
    KeyedPermutation tags_;
    const engine::Share share_;
    std::uint32_t live_ = 0;
    std::uint32_t oldest_orphan_ = kNobody;
    std::uint32_t newest_orphan_ = kNobody;
    PeerIndex by_remote_id_;  // connections whose peer told its id
    PeerIndex by_remote_qpn_; // connections that hold a queue pair of the peer
    PeerIndex by_qpn_;        // ours, until the end of time-wait
    engine::Deadlines deadlines_;
};

} // namespace sluice::roce::cm
