// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/engine/engine.hpp"

#include <bit>

#include "provider/uroce/engine/draw.hpp"
#include "provider/uroce/wire/mad.hpp"

namespace sluice::uroce {
namespace {

constexpr std::uint32_t kMaxQueuePairs = std::uint32_t{1} << 20;

// Membership apart, there is one partition: the default one (10.9).
constexpr bool pkey_matches(std::uint16_t pkey) noexcept {
    return (pkey & 0x7fff) == 0x7fff;
}

} // namespace

Engine::Engine(const EngineConfig& config, Memory& memory, EventSink& events)
    : regions_(config.max_regions, config.seed), memory_(memory), events_(events),
      seats_(std::bit_ceil(std::clamp<std::uint32_t>(config.max_queue_pairs, 2, kMaxQueuePairs)) + 1),
      index_mask_(static_cast<std::uint32_t>(seats_.size() - 2)), random_(~config.seed) {
    deadlines_.reserve(seats_.size());
}

Result<QueuePair*> Engine::create_queue_pair(const QpConfig& config) {
    for (std::uint32_t i = 0; i <= index_mask_; ++i) {
        const std::uint32_t index = (next_seat_ + i) & index_mask_;
        if (seats_[index].qp == nullptr) {
            next_seat_ = index + 1;
            // Random above the seat's number; 0 and 1 are taken by the standard.
            const std::uint64_t tag = std::uint64_t{draw(random_)} << std::popcount(index_mask_);
            std::uint32_t qpn = (static_cast<std::uint32_t>(tag) | index) & wire::kQpnMask;
            qpn = qpn <= wire::kGsiQpn ? qpn | (index_mask_ + 1) : qpn;
            return seat(index, qpn, config);
        }
    }
    return Error(ErrorKind::kInsufficientResources, "no room for another queue pair; destroy one first");
}

Result<QueuePair*> Engine::create_gsi(const QpConfig& config) {
    const auto last = static_cast<std::uint32_t>(seats_.size() - 1);
    if (seats_[last].qp != nullptr) {
        return Error(ErrorKind::kExists, "queue pair 1 exists already");
    }
    return seat(last, wire::kGsiQpn, config);
}

Result<QueuePair*> Engine::seat(std::uint32_t index, std::uint32_t qpn, const QpConfig& config) {
    if (config.send_cq == nullptr || config.recv_cq == nullptr || config.max_send_sge > kMaxSge ||
        config.max_recv_sge > kMaxSge || config.max_send_wr > kMaxQueuePairs ||
        config.max_recv_wr > kMaxQueuePairs) {
        return Error(ErrorKind::kInvalidArgument,
                     "a queue pair needs two completion queues, at most 32 SGEs and 2^20 requests per queue");
    }
    seats_[index].qp = std::make_unique<QueuePair>(config, qpn, regions_, memory_, events_, counters_);
    return seats_[index].qp.get();
}

void Engine::destroy_queue_pair(QueuePair& qp) noexcept {
    const std::uint32_t index = index_of(qp.qpn());
    remove_deadline(index);
    regions_.forget_queue_pair(qp.qpn());
    seats_[index].qp.reset(); // if it is in the ready list, take_ready() will skip it
}

std::uint32_t Engine::index_of(std::uint32_t qpn) const noexcept {
    return qpn == wire::kGsiQpn ? static_cast<std::uint32_t>(seats_.size() - 1) : qpn & index_mask_;
}

void Engine::wake(QueuePair& qp) noexcept {
    const std::uint32_t index = index_of(qp.qpn());
    make_ready(index);
    reschedule(index);
}

void Engine::make_ready(std::uint32_t index) noexcept {
    Seat& seat = seats_[index];
    if (seat.ready) {
        return;
    }
    seat.ready = true;
    seat.next_ready = kNobody;
    if (ready_tail_ == kNobody) {
        ready_head_ = index;
    } else {
        seats_[ready_tail_].next_ready = index;
    }
    ready_tail_ = index;
}

std::uint32_t Engine::take_ready() noexcept {
    const std::uint32_t index = ready_head_;
    if (index != kNobody) {
        ready_head_ = seats_[index].next_ready;
        ready_tail_ = ready_head_ == kNobody ? kNobody : ready_tail_;
        seats_[index].ready = false;
    }
    return index;
}

void Engine::receive(const InPacket& in, Nanoseconds now) noexcept {
    ++counters_.packets_in;
    if (in.packet.info().transport == wire::Transport::kCnp) {
        return; // nothing here reacts to congestion
    }
    const std::uint32_t index = index_of(in.packet.bth.dest_qpn);
    QueuePair* qp = seats_[index].qp.get();
    if (qp == nullptr || qp->qpn() != in.packet.bth.dest_qpn) {
        ++counters_.dropped_unknown_qp;
        return;
    }
    if (!pkey_matches(in.packet.bth.pkey)) {
        ++counters_.dropped_wrong_peer;
        return;
    }
    qp->receive(in.packet, in.source, in.destination, in.grh, now);
    make_ready(index);
    reschedule(index);
}

bool Engine::transmit(OutPacket& out, Nanoseconds now) noexcept {
    for (std::uint32_t index = take_ready(); index != kNobody; index = take_ready()) {
        if (seats_[index].qp == nullptr) {
            continue;
        }
        const bool sent = seats_[index].qp->transmit(out, now);
        reschedule(index);
        if (sent) {
            ++counters_.packets_out;
            make_ready(index);
            return true;
        }
    }
    return false;
}

Nanoseconds Engine::next_deadline() const noexcept {
    return deadlines_.empty() ? kNever : deadlines_.front().when;
}

void Engine::advance(Nanoseconds now) noexcept {
    while (next_deadline() <= now) {
        const std::uint32_t index = deadlines_.front().index;
        seats_[index].qp->advance(now);
        make_ready(index);
        reschedule(index);
    }
}

void Engine::reschedule(std::uint32_t index) noexcept {
    const Nanoseconds when = seats_[index].qp == nullptr ? kNever : seats_[index].qp->deadline();
    std::uint32_t& at = seats_[index].heap_at;
    if (when == kNever) {
        remove_deadline(index);
    } else if (at == kNobody) {
        deadlines_.push_back({when, index}); // within what was reserved
        at = static_cast<std::uint32_t>(deadlines_.size() - 1);
        sift(at);
    } else if (deadlines_[at].when != when) {
        deadlines_[at].when = when;
        sift(at);
    }
}

void Engine::remove_deadline(std::uint32_t index) noexcept {
    const std::uint32_t at = seats_[index].heap_at;
    if (at == kNobody) {
        return;
    }
    const Deadline last = deadlines_.back();
    deadlines_.pop_back();
    seats_[index].heap_at = kNobody;
    if (at < deadlines_.size()) {
        deadlines_[at].when = last.when;
        place(at, last.index);
        sift(at);
    }
}

void Engine::place(std::size_t at, std::uint32_t index) noexcept {
    deadlines_[at].index = index;
    seats_[index].heap_at = static_cast<std::uint32_t>(at);
}

// Up, then down, until the heap holds again around AT.
void Engine::sift(std::size_t at) noexcept {
    const auto exchange = [this](std::size_t a, std::size_t b) {
        std::swap(deadlines_[a], deadlines_[b]);
        place(a, deadlines_[a].index);
        place(b, deadlines_[b].index);
    };
    for (; at > 0 && deadlines_[at].when < deadlines_[(at - 1) / 2].when; at = (at - 1) / 2) {
        exchange(at, (at - 1) / 2);
    }
    for (;;) {
        std::size_t least = at;
        for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < deadlines_.size(); ++child) {
            least = deadlines_[child].when < deadlines_[least].when ? child : least;
        }
        if (least == at) {
            return;
        }
        exchange(at, least);
        at = least;
    }
}

} // namespace sluice::uroce
