// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/connections.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "roce/engine/draw.hpp"

namespace sluice::roce::cm {

namespace {

constexpr std::uint32_t kMostConnections = std::uint32_t{1} << 16; // leaves 16 random bits in each id
constexpr engine::Address kOurselves{};                            // by_qpn_ knows one device

} // namespace

Connections::Connections(const ManagerConfig& config, ManagerCounters& counters)
    : counters_(counters), seed_(config.seed),
      slots_(std::clamp<std::uint32_t>(config.max_connections, 1, kMostConnections)),
      slot_mask_(static_cast<std::uint32_t>(std::bit_ceil(slots_.size()) - 1)), lives_(slots_.size()),
      by_remote_id_(static_cast<std::uint32_t>(slots_.size()), ~config.seed),
      by_remote_qpn_(static_cast<std::uint32_t>(slots_.size()), ~config.seed),
      by_qpn_(static_cast<std::uint32_t>(slots_.size()), ~config.seed), deadlines_(slots_.size()) {
    free_slots_.reserve(slots_.size());
    for (std::size_t slot = slots_.size(); slot-- > 0;) {
        free_slots_.push_back(static_cast<std::uint32_t>(slot));
    }
}

// The slot, and above it a number that no earlier life of the slot has had: a peer remembers our ids for a
// while, and would take a new connection for an old one. A keyed permutation of all numbers that there are,
// so that only the seed predicts the next.
std::uint32_t Connections::new_comm_id(std::uint32_t slot) noexcept {
    const int slot_bits = std::popcount(slot_mask_);
    const std::uint32_t mask = ~std::uint32_t{0} >> slot_bits;
    const int half = (32 - slot_bits) / 2;
    std::uint32_t life = lives_[slot]++;
    std::uint64_t key = seed_ + slot;
    for (int round = 0; round < 3; ++round) { // each step can be undone, so that no two lives meet
        life = (life + engine::draw(key)) & mask;
        life = (life * (engine::draw(key) | 1)) & mask;
        life ^= life >> half;
    }
    const std::uint32_t made = life << slot_bits | slot; // at most 16 bits are the slot's
    return made != 0 ? made : new_comm_id(slot);
}

Connection* Connections::make(const engine::Address& local, const engine::Address& peer) noexcept {
    if (free_slots_.empty() && !make_room()) {
        return nullptr;
    }
    const std::uint32_t slot = free_slots_.back();
    slots_[slot].reset(new (std::nothrow) Connection);
    Connection* made = slots_[slot].get();
    if (made == nullptr) {
        return nullptr;
    }
    free_slots_.pop_back();
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
    free_slots_.push_back(slot); // within what was reserved
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
