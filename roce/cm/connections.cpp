// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/connections.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace sluice::roce::cm {

namespace {

constexpr std::uint32_t kMostConnections = std::uint32_t{1} << 16; // leaves 16 random bits in each id
constexpr int kIdBits = 32;
constexpr engine::Address kOurselves{}; // by_qpn_ knows one device

} // namespace

Connections::Connections(const ManagerConfig& config, ManagerCounters& counters)
    : counters_(counters), slots_(std::clamp<std::uint32_t>(config.max_connections, 1, kMostConnections)),
      slot_mask_(static_cast<std::uint32_t>(std::bit_ceil(slots_.size()) - 1)), lives_(slots_.size()),
      free_slots_(static_cast<std::uint32_t>(slots_.size()), config.secret.derive("slots")),
      tags_(config.secret.derive("ids"), kIdBits - std::popcount(slot_mask_)), share_(config.share),
      by_remote_id_(static_cast<std::uint32_t>(slots_.size()), config.secret.derive("by id")),
      by_remote_qpn_(static_cast<std::uint32_t>(slots_.size()), config.secret.derive("by peer qpn")),
      by_qpn_(static_cast<std::uint32_t>(slots_.size()), config.secret.derive("by qpn")),
      deadlines_(slots_.size()) {}

// The slot, drawn among the free ones, and above it a tag that no earlier life of the slot has had: a peer
// remembers our ids for a while, and would take a new connection for an old one. Other processes of the
// address have their share of the ids.
std::uint32_t Connections::new_comm_id(std::uint32_t slot) noexcept {
    std::uint32_t made = 0;
    do {
        made = tags_(slot, lives_[slot]++) << std::popcount(slot_mask_) | slot;
    } while (made == 0 || !share_.owns(made));
    return made;
}

Connection* Connections::make(const engine::Address& local, const engine::Address& peer) noexcept {
    if (free_slots_.empty() && !make_room()) {
        return nullptr;
    }
    std::unique_ptr<Connection> fresh(new (std::nothrow) Connection);
    if (fresh == nullptr) {
        return nullptr;
    }
    const std::uint32_t slot = *free_slots_.take();
    Connection* made = fresh.get();
    slots_[slot] = std::move(fresh);
    ++live_;
    made->comm_id = new_comm_id(slot);
    made->local = local;
    made->peer = peer;
    return made;
}

// Time-wait is a courtesy: a peer that floods us loses it first.
bool Connections::make_room() noexcept {
    if (oldest_orphan_ == kNobody) {
        return false;
    }
    ++counters_.time_wait_cut_short;
    release(*slots_[oldest_orphan_]);
    return true;
}

void Connections::release(Connection& c) noexcept {
    const std::uint32_t slot = slot_of(c);
    remove_orphan(c);
    forget_keys(c);
    deadlines_.set(slot, engine::kNever);
    slots_[slot].reset();
    free_slots_.give_back(slot);
    --live_;
}

Connection* Connections::at(std::uint32_t slot) const noexcept {
    return slot == kNobody ? nullptr : slots_[slot].get();
}

Connection* Connections::find(std::uint32_t comm_id) const noexcept {
    const std::uint32_t slot = comm_id & slot_mask_;
    Connection* found = slot < slots_.size() ? slots_[slot].get() : nullptr;
    return found != nullptr && found->comm_id == comm_id ? found : nullptr;
}

Result<Connection*> Connections::get(ConnectionId id) const {
    Connection* found = find(static_cast<std::uint32_t>(id));
    if (found == nullptr || found->orphan) {
        return Error(ErrorKind::kInvalidHandle, "no such connection; it may have been destroyed");
    }
    return found;
}

Connection* Connections::find_passive(const engine::Address& peer, std::uint32_t remote_comm_id,
                                      bool datagram) const noexcept {
    return at(by_remote_id_.find(peer, remote_comm_id, [&](std::uint32_t candidate) {
        const Connection& c = *slots_[candidate];
        return !c.active && c.datagram == datagram && c.remote_comm_id == remote_comm_id && c.peer == peer;
    }));
}

Connection* Connections::find_by_peer_qpn(const engine::Address& peer, std::uint32_t qpn) const noexcept {
    return at(by_remote_qpn_.find(peer, qpn, [&](std::uint32_t candidate) {
        return slots_[candidate]->peer_qpn == qpn && slots_[candidate]->peer == peer;
    }));
}

Connection* Connections::find_by_qpn(std::uint32_t qpn) const noexcept {
    return at(by_qpn_.find(kOurselves, qpn,
                           [&](std::uint32_t candidate) { return slots_[candidate]->qpn == qpn; }));
}

void Connections::index_remote_id(const Connection& c) noexcept {
    by_remote_id_.insert(c.peer, c.remote_comm_id, slot_of(c));
}

void Connections::index_peer_qpn(const Connection& c) noexcept {
    by_remote_qpn_.insert(c.peer, c.peer_qpn, slot_of(c));
}

void Connections::index_qpn(const Connection& c) noexcept {
    by_qpn_.insert(kOurselves, c.qpn, slot_of(c));
}

void Connections::forget_keys(const Connection& c) noexcept {
    by_remote_id_.erase(slot_of(c));
    by_remote_qpn_.erase(slot_of(c));
    by_qpn_.erase(slot_of(c));
}

void Connections::append_orphan(Connection& c) noexcept {
    const std::uint32_t slot = slot_of(c);
    c.older = newest_orphan_;
    (newest_orphan_ == kNobody ? oldest_orphan_ : slots_[newest_orphan_]->newer) = slot;
    newest_orphan_ = slot;
}

void Connections::remove_orphan(Connection& c) noexcept {
    if (c.older == kNobody && oldest_orphan_ != slot_of(c)) {
        return; // not in the list
    }
    (c.older == kNobody ? oldest_orphan_ : slots_[c.older]->newer) = c.newer;
    (c.newer == kNobody ? newest_orphan_ : slots_[c.newer]->older) = c.older;
    c.older = c.newer = kNobody;
}

} // namespace sluice::roce::cm
