// SPDX-License-Identifier: BSD-3-Clause
//
// The engine of one device: queue pairs, regions and windows, without any I/O. Its driver
// gives it packets and the time, and takes packets and completions:
//
//     engine.receive({packet, source, destination, grh, port}, now);  // for each that arrived
//     engine.advance(now);                                         // if now >= next_deadline()
//     do {
//         while (engine.transmit(out, now)) { add to the batch }   // as long as there is room
//         send the batch
//     } while (engine.settle());
//     while (cq.poll(completion)) { ... }
//
// After a post to a queue pair, posted(qp) makes the engine look at it. The order of calls and the
// times given determine every byte that comes out: there is no clock, no thread and no lock in here,
// which is what lets a simulation repeat a failure from its secret.
//
// Not thread safe: one lock around it, or one thread. create and destroy allocate; nothing else does.
#pragma once

#include <memory>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/random.hpp"
#include "roce/engine/deadlines.hpp"
#include "roce/engine/free_slots.hpp"
#include "roce/engine/in_packet.hpp"
#include "roce/engine/multicast.hpp"
#include "roce/engine/queue_pair.hpp"
#include "roce/engine/share.hpp"

namespace sluice::roce::engine {

struct EngineConfig {
    std::uint32_t max_queue_pairs = 1024;   // up to 2^20, or 4096 with a share
    std::uint32_t max_regions = 4096;       // with windows; up to 2^20
    RandomKey secret{};                     // what queue pair numbers and keys come from
    Share share{};                          // of the numbers that queue pairs may have
    Nanoseconds min_silence = 0;            // of a peer, before a connection ends
    Counters* counters = nullptr;           // where it counts; outlives it. Null: in itself
    Neighbourhood* neighbourhood = nullptr; // outlives it. Null: all peers are reached by packets
    QueuePairRows* rows = nullptr;          // of its queue pairs; outlives it. Null: nobody sees them
};

class Engine {
  public:
    Engine(const EngineConfig& config, Memory& memory, EventSink& events);

    RegionTable& regions() noexcept { return regions_; }
    MulticastGroups& groups() noexcept { return groups_; }
    const Counters& counters() const noexcept { return counters_; }

    Result<QueuePair*> create_queue_pair(const QpConfig& config);
    // Queue pair 1, to which management datagrams go. There is one at most.
    Result<QueuePair*> create_gsi(const QpConfig& config);
    void destroy_queue_pair(QueuePair& qp) noexcept;

    // For a shared receive queue of an XRC domain: no other one here has had it, and none of a process that
    // has another share of the address's numbers. Nothing: none was found.
    std::optional<std::uint32_t> next_srq_number() noexcept;

    QueuePair* find(std::uint32_t qpn) const noexcept;
    // Calls VISIT(queue pair) for each that there is.
    template<typename Visit>
    void for_each(Visit&& visit) {
        for (const Slot& slot : slots_) {
            if (slot.qp != nullptr) {
                visit(*slot.qp);
            }
        }
    }

    // Whether queue pair QPN takes packets from queue pair PEER_QPN of REMOTE.
    bool is_connected(std::uint32_t qpn, const Address& remote, std::uint32_t peer_qpn) const noexcept;
    // Of the peer of QPN, which had been silent.
    void peer_is_gone(std::uint32_t qpn) noexcept;
    // Only while it is connected so.
    void peer_is_gone(const Ends& ends) noexcept {
        if (is_connected(ends.qpn, ends.remote, ends.peer_qpn)) {
            peer_is_gone(ends.qpn);
        }
    }
    void peer_answers(const Ends& ends) noexcept;

    // A peer that had no room for packets may have some now.
    void room_again() noexcept;

    // QP has changed: it may have something to send, and another deadline.
    void wake(QueuePair& qp) noexcept;
    // QP has another request, which sets no deadline before it leaves.
    void posted(QueuePair& qp) noexcept { make_ready(index_of(qp.qpn())); }
    void receive(const InPacket& in, const Moment& now) noexcept;
    // The next packet to send: queue pairs take turns. Those that owe plain acknowledgements and nothing else
    // come last, or wait.
    enum class Acks : std::uint8_t { kSend, kHold };
    bool transmit(OutPacket& out, const Moment& now, Acks acks = Acks::kSend) noexcept {
        return (has_ready() && transmit_ready(out, now)) ||
               (acks == Acks::kSend && release_acks() && transmit_ready(out, now));
    }
    // Whether acknowledgements wait for a call that sends them.
    bool owes_acks() const noexcept { return !owing_.empty(); }
    // What went with a packet of QPN didn't leave.
    void acknowledge_again(std::uint32_t qpn) noexcept;
    // They wait no longer. True: there were some.
    bool release_acks() noexcept { return owes_acks() && make_owing_ready(); }
    // All packets that were pulled have left. True: because of that, there may be more of them.
    bool settle() noexcept { return !unsettled_.empty() && settle_all(); }
    void advance(Nanoseconds now) noexcept;
    Nanoseconds next_deadline() const noexcept { return deadlines_.next(); }
    // Whether transmit() is worth calling.
    bool has_ready() const noexcept { return ready_head_ != kNobody; }

  private:
    struct Slot {
        std::unique_ptr<QueuePair> qp;
        std::uint32_t next_ready = kNobody; // in the list of those that may have something to send
        bool ready = false;
        bool unsettled = false;  // is in unsettled_
        bool waits = false;      // is in waiting_
        bool owes = false;       // is in owing_
        std::uint32_t lives = 0; // queue pairs that it has had
    };
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

    Result<QueuePair*> make_at(std::uint32_t index, std::uint32_t qpn, const QpConfig& config);
    std::uint32_t index_of(std::uint32_t qpn) const noexcept;
    std::optional<std::uint32_t> next_number(std::uint32_t index) noexcept;
    void receive_multicast(const InPacket& in, const Moment& now) noexcept;
    void make_ready(std::uint32_t index) noexcept;
    void wait_for_room(std::uint32_t index) noexcept;
    void owe(std::uint32_t index) noexcept;
    bool make_owing_ready() noexcept;
    bool settle_all() noexcept;
    bool transmit_ready(OutPacket& out, const Moment& now) noexcept;
    std::uint32_t take_ready() noexcept;
    void reschedule(std::uint32_t index) noexcept;

    RegionTable regions_;
    Memory& memory_;
    EventSink& events_;
    Counters own_counters_;
    Counters& counters_;
    std::vector<Slot> slots_; // by the low bits of the number; the last is queue pair 1's
    std::uint32_t index_mask_;
    FreeSlots free_;
    KeyedPermutation tags_;
    KeyedPermutation srq_numbers_;
    std::uint32_t srq_numbers_drawn_ = 0;
    const Share share_;
    const Nanoseconds min_silence_;
    Neighbourhood* const neighbourhood_;
    QueuePairRows* const rows_;
    std::uint32_t ready_head_ = kNobody;
    std::uint32_t ready_tail_ = kNobody;
    Deadlines deadlines_;
    MulticastGroups groups_;
    std::vector<std::uint32_t> unsettled_; // seats; its memory is reserved
    std::vector<std::uint32_t> waiting_;   // for room at their peers; so is this one's
    std::vector<std::uint32_t> owing_;     // acknowledgements alone; and this one's
};

} // namespace sluice::roce::engine
