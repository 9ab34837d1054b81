// SPDX-License-Identifier: BSD-3-Clause
//
// The engine of one device: queue pairs, regions and windows, without any I/O. Whoever drives it
// gives it packets and the time, and takes packets and completions:
//
//     engine.receive({packet, source, destination, grh}, now);     // for each that arrived
//     engine.advance(now);                                         // if now >= next_deadline()
//     while (engine.transmit(out, now)) { send(out); }             // as long as there is room
//     while (cq.poll(completion)) { ... }
//
// After a post to a queue pair, wake(qp) tells the engine to look at it. The order of calls and the
// times given determine every byte that comes out: there is no clock, no thread and no lock in here,
// which is what lets a simulation repeat a failure from its seed.
//
// Not thread safe: one lock around it, or one thread. create and destroy allocate; nothing else does.
#pragma once

#include <memory>
#include <vector>

#include "provider/uroce/engine/queue_pair.hpp"

namespace sluice::uroce {

struct InPacket {
    const wire::Packet& packet;
    Address source;
    Address destination;
    const wire::Grh& grh; // looked at for UD only
};

struct EngineConfig {
    std::uint32_t max_queue_pairs = 1024; // up to 2^20
    std::uint32_t max_regions = 4096;     // with windows; up to 2^20
    std::uint64_t seed = 0;               // of queue pair numbers and keys
};

class Engine {
  public:
    Engine(const EngineConfig& config, Memory& memory, EventSink& events);

    RegionTable& regions() noexcept { return regions_; }
    const Counters& counters() const noexcept { return counters_; }

    Result<QueuePair*> create_queue_pair(const QpConfig& config);
    // Queue pair 1, to which management datagrams go. There is one at most.
    Result<QueuePair*> create_gsi(const QpConfig& config);
    void destroy_queue_pair(QueuePair& qp) noexcept;

    void wake(QueuePair& qp) noexcept;
    void receive(const InPacket& in, Nanoseconds now) noexcept;
    // The next packet to send: queue pairs take turns.
    bool transmit(OutPacket& out, Nanoseconds now) noexcept;
    void advance(Nanoseconds now) noexcept;
    Nanoseconds next_deadline() const noexcept;

  private:
    struct Seat {
        std::unique_ptr<QueuePair> qp;
        std::uint32_t next_ready = kNobody; // in the list of those that may have something to send
        std::uint32_t heap_at = kNobody;    // place in deadlines_
        bool ready = false;
    };
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

    Result<QueuePair*> seat(std::uint32_t index, std::uint32_t qpn, const QpConfig& config);
    std::uint32_t index_of(std::uint32_t qpn) const noexcept;
    void make_ready(std::uint32_t index) noexcept;
    std::uint32_t take_ready() noexcept;
    void reschedule(std::uint32_t index) noexcept;
    void sift(std::size_t at) noexcept;
    void place(std::size_t at, std::uint32_t index) noexcept;
    void remove_deadline(std::uint32_t index) noexcept;

    RegionTable regions_;
    Memory& memory_;
    EventSink& events_;
    Counters counters_;
    std::vector<Seat> seats_; // by the low bits of the number; the last is queue pair 1's
    std::uint32_t index_mask_;
    std::uint64_t random_;
    std::uint32_t next_seat_ = 0;
    std::uint32_t ready_head_ = kNobody;
    std::uint32_t ready_tail_ = kNobody;
    struct Deadline {
        Nanoseconds when;
        std::uint32_t index;
    };
    std::vector<Deadline> deadlines_; // a binary heap; its memory is reserved
};

} // namespace sluice::uroce
