// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/engine.hpp"

#include <algorithm>
#include <bit>

#include "roce/wire/mad.hpp"

namespace sluice::roce::engine {
namespace {

constexpr std::uint32_t kMaxQueuePairs = std::uint32_t{1} << 20;
// Then each seat has some 64 numbers within the process's share.
constexpr std::uint32_t kMaxSharedQueuePairs = 4096;
constexpr int kQpnBits = 24;

// Membership apart, there is one partition: the default one (10.9).
constexpr bool pkey_matches(std::uint16_t pkey) noexcept {
    return (pkey & 0x7fff) == 0x7fff;
}

} // namespace

Engine::Engine(const EngineConfig& config, Memory& memory, EventSink& events)
    : regions_(config.max_regions, config.secret.derive("memory keys"), config.neighbourhood),
      memory_(memory), events_(events),
      counters_(config.counters != nullptr ? *config.counters : own_counters_),
      slots_(std::bit_ceil(std::clamp<std::uint32_t>(
                 config.max_queue_pairs, 2, config.share.is_all() ? kMaxQueuePairs : kMaxSharedQueuePairs)) +
             1),
      index_mask_(static_cast<std::uint32_t>(slots_.size() - 2)),
      free_(index_mask_ + 1, config.secret.derive("seats")),
      tags_(config.secret.derive("numbers"), kQpnBits - std::popcount(index_mask_)),
      srq_numbers_(config.secret.derive("srq numbers"), kQpnBits), share_(config.share),
      min_silence_(config.min_silence), neighbourhood_(config.neighbourhood), rows_(config.rows),
      deadlines_(slots_.size()) {
    unsettled_.reserve(slots_.size());
    waiting_.reserve(slots_.size());
    owing_.reserve(slots_.size());
}

Result<QueuePair*> Engine::create_queue_pair(const QpConfig& config) {
    const std::optional<std::uint32_t> index = free_.take();
    if (!index) {
        return Error(ErrorKind::kInsufficientResources, "no room for another queue pair; destroy one first");
    }
    const std::optional<std::uint32_t> number = next_number(*index);
    Result<QueuePair*> made = number ? make_at(*index, *number, config)
                                     : Error(ErrorKind::kInsufficientResources,
                                             "no number of this process's share was found for a queue pair");
    if (!made) {
        free_.give_back(*index);
    }
    return made;
}

// A seat that nobody can guess, and above it a tag that the seat hasn't had for as long as there are others:
// connections that have ended keep their numbers for seconds. 0, 1 and the last are taken by the standard,
// and other processes of the address have their share.
// Not without end: the words of a share come from another process.
std::optional<std::uint32_t> Engine::next_number(std::uint32_t index) noexcept {
    const int index_bits = std::popcount(index_mask_);
    for (std::uint32_t tries = 0; tries < 1U << (kQpnBits - index_bits); ++tries) {
        const std::uint32_t qpn = tags_(index, slots_[index].lives++) << index_bits | index;
        if (qpn > wire::kGsiQpn && qpn != kMulticastQpn && share_.owns(qpn)) {
            return qpn;
        }
    }
    return std::nullopt;
}

// Nor do these come from elsewhere alone.
std::optional<std::uint32_t> Engine::next_srq_number() noexcept {
    constexpr int kMostTries = 1 << 12;
    for (int tries = 0; tries < kMostTries && srq_numbers_drawn_ < 1U << kQpnBits; ++tries) {
        const std::uint32_t number = srq_numbers_(0, srq_numbers_drawn_++);
        if (number != 0 && share_.owns(number)) {
            return number;
        }
    }
    return std::nullopt;
}

Result<QueuePair*> Engine::create_gsi(const QpConfig& config) {
    const auto last = static_cast<std::uint32_t>(slots_.size() - 1);
    if (slots_[last].qp != nullptr) {
        return Error(ErrorKind::kExists, "queue pair 1 exists already");
    }
    return make_at(last, wire::kGsiQpn, config);
}

Result<QueuePair*> Engine::make_at(std::uint32_t index, std::uint32_t qpn, const QpConfig& config) {
    if (config.send_cq == nullptr || config.recv_cq == nullptr || config.max_send_sge > kMaxSge ||
        config.max_recv_sge > kMaxSge || config.max_send_wr > kMaxQueuePairs ||
        config.max_recv_wr > kMaxQueuePairs) {
        return Error(ErrorKind::kInvalidArgument,
                     "a queue pair needs two completion queues, at most 32 SGEs and 2^20 requests per queue");
    }
    if ((config.type == QpType::kXrcReceive) != (config.xrc_domain != nullptr)) {
        return Error(ErrorKind::kInvalidArgument,
                     "XRC's receiver needs an XRC domain, and no other type has one");
    }
    QpConfig own = config;
    own.min_silence = min_silence_;
    own.rows = rows_;
    slots_[index].qp =
        std::make_unique<QueuePair>(own, qpn, regions_, memory_, events_, counters_, neighbourhood_, index);
    return slots_[index].qp.get();
}

bool Engine::is_connected(std::uint32_t qpn, const Address& remote, std::uint32_t peer_qpn) const noexcept {
    const QueuePair* const qp = find(qpn);
    return qp != nullptr && qp->is_connected_to(remote, peer_qpn);
}

void Engine::peer_is_gone(std::uint32_t qpn) noexcept {
    if (QueuePair* const qp = find(qpn)) {
        qp->peer_is_gone();
        reschedule(index_of(qpn));
    }
}

void Engine::peer_answers(const Ends& ends) noexcept {
    if (is_connected(ends.qpn, ends.remote, ends.peer_qpn)) {
        find(ends.qpn)->peer_answers();
    }
}

void Engine::destroy_queue_pair(QueuePair& qp) noexcept {
    const std::uint32_t index = index_of(qp.qpn());
    deadlines_.set(index, kNever);
    regions_.forget_queue_pair(qp.qpn());
    groups_.forget(qp);
    slots_[index].qp.reset(); // if it is in the ready list, take_ready() will skip it
    if (index <= index_mask_) {
        free_.give_back(index);
    }
}

std::uint32_t Engine::index_of(std::uint32_t qpn) const noexcept {
    return qpn == wire::kGsiQpn ? static_cast<std::uint32_t>(slots_.size() - 1) : qpn & index_mask_;
}

QueuePair* Engine::find(std::uint32_t qpn) const noexcept {
    QueuePair* qp = slots_[index_of(qpn)].qp.get();
    return qp != nullptr && qp->qpn() == qpn ? qp : nullptr;
}

void Engine::wake(QueuePair& qp) noexcept {
    const std::uint32_t index = index_of(qp.qpn());
    make_ready(index);
    reschedule(index);
}

void Engine::make_ready(std::uint32_t index) noexcept {
    Slot& slot = slots_[index];
    if (slot.ready) {
        return;
    }
    slot.ready = true;
    slot.next_ready = kNobody;
    if (ready_tail_ == kNobody) {
        ready_head_ = index;
    } else {
        slots_[ready_tail_].next_ready = index;
    }
    ready_tail_ = index;
}

std::uint32_t Engine::take_ready() noexcept {
    const std::uint32_t index = ready_head_;
    if (index != kNobody) {
        ready_head_ = slots_[index].next_ready;
        ready_tail_ = ready_head_ == kNobody ? kNobody : ready_tail_;
        slots_[index].ready = false;
    }
    return index;
}

void Engine::receive(const InPacket& in, const Moment& now) noexcept {
    if (in.packet.info().transport == wire::Transport::kCnp) {
        return; // nothing here reacts to congestion
    }
    if (in.packet.bth.dest_qpn == kMulticastQpn) {
        receive_multicast(in, now);
        return;
    }
    const std::uint32_t index = index_of(in.packet.bth.dest_qpn);
    QueuePair* qp = find(in.packet.bth.dest_qpn);
    if (qp == nullptr) {
        ++counters_.dropped_unknown_qp;
        return;
    }
    if (!pkey_matches(in.packet.bth.pkey)) {
        ++counters_.dropped_wrong_peer;
        return;
    }
    qp->receive(in, now);
    if (qp->owes_acknowledgements_alone()) {
        owe(index);
    } else {
        make_ready(index);
    }
    reschedule(index);
}

// 9.8.3: a copy for each that hears the group. No queue pair has this number.
void Engine::receive_multicast(const InPacket& in, const Moment& now) noexcept {
    if (in.packet.info().transport != wire::Transport::kUd || !groups_.hears(in.destination)) {
        ++counters_.dropped_unknown_qp;
        return;
    }
    if (!pkey_matches(in.packet.bth.pkey)) {
        ++counters_.dropped_wrong_peer;
        return;
    }
    groups_.for_each(in.destination, [&](QueuePair& qp) {
        if (!qp.is_own_multicast(in)) {
            qp.receive(in, now);
        }
    });
}

void Engine::owe(std::uint32_t index) noexcept {
    if (!std::exchange(slots_[index].owes, true)) {
        owing_.push_back(index); // within what was reserved
    }
}

void Engine::acknowledge_again(std::uint32_t qpn) noexcept {
    if (QueuePair* const qp = find(qpn)) {
        qp->acknowledge_again();
        make_ready(index_of(qpn));
    }
}

bool Engine::make_owing_ready() noexcept {
    for (const std::uint32_t index : owing_) {
        slots_[index].owes = false;
        make_ready(index);
    }
    owing_.clear();
    return true;
}

bool Engine::transmit_ready(OutPacket& out, const Moment& now) noexcept {
    for (std::uint32_t index = take_ready(); index != kNobody; index = take_ready()) {
        Slot& slot = slots_[index];
        if (slot.qp == nullptr || slot.qp->has_nothing_to_send()) {
            continue;
        }
        QueuePair& qp = *slot.qp;
        const bool sent = qp.transmit(out, now);
        reschedule(index);
        if (!sent && qp.lacks_room()) {
            wait_for_room(index);
        }
        if (sent) {
            out.source_qpn = qp.qpn();
            if (!qp.has_nothing_to_send()) {
                make_ready(index);
            }
            if (qp.unsettled() && !slot.unsettled) {
                slot.unsettled = true;
                unsettled_.push_back(index); // within what was reserved
            }
            return true;
        }
    }
    return false;
}

void Engine::wait_for_room(std::uint32_t index) noexcept {
    if (!std::exchange(slots_[index].waits, true)) {
        waiting_.push_back(index); // within what was reserved
    }
}

void Engine::room_again() noexcept {
    for (const std::uint32_t index : waiting_) {
        slots_[index].waits = false;
        make_ready(index);
    }
    waiting_.clear();
}

bool Engine::settle_all() noexcept {
    for (const std::uint32_t index : unsettled_) {
        slots_[index].unsettled = false;
        if (slots_[index].qp != nullptr) {
            slots_[index].qp->settle();
            make_ready(index);
        }
    }
    unsettled_.clear();
    return true;
}

void Engine::advance(Nanoseconds now) noexcept {
    while (deadlines_.next() <= now) {
        const std::uint32_t index = deadlines_.next_index();
        slots_[index].qp->advance(now);
        make_ready(index);
        reschedule(index);
    }
}

void Engine::reschedule(std::uint32_t index) noexcept {
    deadlines_.set(index, slots_[index].qp == nullptr ? kNever : slots_[index].qp->deadline());
}

} // namespace sluice::roce::engine
