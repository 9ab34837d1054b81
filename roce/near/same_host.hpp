// SPDX-License-Identifier: BSD-3-Clause
//
// The processes of this host that a device reaches through memory: how it executes requests on theirs, and
// the rings for packets to and from them (ADR 77).
//
// Each request looks at the peer's board anew: the connection, the key, the range and the rights. What
// doesn't fit isn't refused here, but goes as packets, and the peer's engine answers as it always does.
//
// Programs wait for the last byte of a Write. So its last word is written by itself, after everything else. A
// long request is done in turns, each of which looks at the board again, so that a peer that deregisters
// memory waits for one turn at most.
//
// Thread safety: all but open(), bell() and has_rings() is called with the device's lock held.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/count.hpp"
#include "core/life_sign.hpp"
#include "roce/engine/memory.hpp"
#include "roce/near/bell.hpp"
#include "roce/near/board.hpp"
#include "roce/near/peer_memory.hpp"
#include "roce/near/ring.hpp"
#include "roce/near/shared_regions.hpp"

namespace sluice::roce::near {

// Requests that this process executed on other processes' memory, and their bytes.
struct DirectCounters {
    Count requests;
    Count bytes_sent;
    Count bytes_received;
};

// Another process of this host.
struct Peer {
    PeerBoard board;
    pid_t pid = 0;                           // of whoever has sent the board
    std::unique_ptr<PeerMemory> memory{};    // all of it; null: it can't be reached
    std::unique_ptr<SharedRegions> shared{}; // what can be mapped here; null: nothing
    // It knows this process's board, and waits for what this process has begun.
    bool waits_for_us = false;
    std::uint32_t place = 0;               // of the sign for it on this process's board
    std::unique_ptr<RingReader> from_it{}; // null: packets come elsewhere
    std::unique_ptr<RingWriter> to_it{};   // null: it hasn't sent its ring
    Descriptor bell{};                     // wakes it
    bool had_no_room = false;
    // What its count of work was when it was waited for in vain.
    std::uint32_t given_up_at = 0;
};

class SameHost final : public engine::Neighbourhood {
  public:
    // MEMORY, this process's, and COUNTERS outlive it.
    SameHost(std::unique_ptr<Board> board, engine::Memory& memory, DirectCounters& counters) noexcept
        : board_(std::move(board)), life_(board_->life()), memory_(memory), counters_(counters) {}

    // ADDRESS is a further one of all processes that have this one's home. No two of them have a number in
    // common there. May throw bad_alloc.
    void add_address(const engine::Address& address) {
        further_.push_back(address);
        known_receiver_ = nullptr;
    }

    Board& board() noexcept { return *board_; }
    const Board& board() const noexcept { return *board_; }
    // By the thread that lives as long as this process's memory may be touched. False: nobody will.
    bool begin_life() noexcept { return life_.begin(); }
    void end_life() noexcept { life_.end(); }

    // The process PID has sent its BOARD. Its memory is touched later, if that is allowed. OWN is this
    // process's.
    static Result<Peer> open(const Descriptor& board, pid_t pid, const engine::Memory& own);
    // From now on it is waited for. Twice is once. Null: there are too many. May throw bad_alloc. What it
    // gives holds until the next call, and has a place.
    const Peer* add(Peer peer);
    // What a process has to be written to.
    struct Ways {
        std::unique_ptr<RingWriter> ring{}; // null: nothing
        Descriptor bell{};                  // wakes it
        std::uint64_t place = 0;            // of its sign for this process, as it says
    };
    // The process PID with board ID waits for this one from now on: its memory may be touched.
    void waits_for_us(std::uint64_t id, pid_t pid, Ways ways) noexcept;
    // Those that have ended aren't looked at any more.
    void forget_the_dead() noexcept;

    void publish(std::uint32_t slot, const engine::PublishedRegion& region) noexcept override;
    void publish(std::uint32_t seat, const engine::PublishedConnection& connection) noexcept override;
    void withdraw_region(std::uint32_t slot) noexcept override;
    void withdraw_connection(std::uint32_t seat) noexcept override;
    bool execute(const engine::DirectRequest& request, std::uint64_t& original) noexcept override;
    bool reaches(const engine::Ends& ends) noexcept override;
    bool knows(const engine::Ends& ends) noexcept override;
    Room room(const engine::Ends& ends) noexcept override;

    // Rung when a peer has something for the thread that makes progress.
    const Bell& bell() const noexcept { return bell_; }
    // Whether a peer has a ring that this process reads.
    bool has_rings() const noexcept { return has_rings_.load(std::memory_order_relaxed); }
    // False: it can't go there, or there is no room.
    bool send(const engine::OutPacket& packet) noexcept;
    // Whether read_packets() has something to do, or a peer has room again.
    bool has_news() const noexcept;
    // Whether a peer has room again that had none. Said once.
    bool room_again() noexcept;
    // Calls TAKE(packet) for each that has been written by now.
    template<typename Take>
    void read_packets(Take&& take) noexcept {
        for (Peer& peer : peers_) {
            if (peer.from_it != nullptr && peer.from_it->has_packets()) {
                if (!peer.from_it->read(take)) {
                    report_garbage(peer);
                }
                after_reading(peer);
            }
        }
    }
    // The thread that makes progress is about to sleep: from now on it is woken. False: there are packets.
    bool fall_asleep() noexcept;
    void wake_up() noexcept;
    // This is the child of a fork: nothing here is used any more.
    void abandon() noexcept;

  private:
    // A part of a request.
    struct Turn {
        std::uint64_t offset;
        std::size_t len_bytes;
        std::span<const iovec> pieces;
    };

    // The peer that IS(its board) is true for. LAST is the one that was found last.
    template<typename Is>
    Peer* find_if(std::size_t& last, Is&& is) noexcept;
    Peer* find(const engine::Ends& ends) noexcept;
    Peer* owner(const engine::Ends& ends) noexcept;
    Peer* receiver(const engine::Ends& ends) noexcept;
    bool is_further(const engine::Address& address) const noexcept;
    Peer* find_receiver(const engine::Ends& ends) noexcept;
    void report_garbage(const Peer& peer) const noexcept;
    static void after_reading(Peer& peer) noexcept;
    std::uint32_t free_place() const noexcept;
    void forget_ways(Peer& peer) noexcept;
    void look_for_rings() noexcept;
    bool may_touch(const Peer* peer) const noexcept;
    void get_ready(Peer& peer, const engine::DirectRequest& request) noexcept;
    bool execute_in_turns(Peer& peer, const engine::DirectRequest& request, std::uint64_t& original) noexcept;
    static bool execute_on(PeerMemory& memory, std::uint64_t at, const engine::DirectRequest& request,
                           const Turn& turn, std::uint64_t& original) noexcept;
    bool execute_turn(Peer& peer, const engine::DirectRequest& request, const Turn& turn,
                      std::uint64_t& original) noexcept;
    void wait_for_work() noexcept;
    static void wait_for(Peer& peer, std::uint32_t work) noexcept;

    std::unique_ptr<Board> board_;
    Bell bell_;
    LifeSign life_;
    engine::Memory& memory_;
    DirectCounters& counters_;
    std::vector<Peer> peers_;
    std::vector<engine::Address> further_;
    std::size_t last_ = 0;          // the one that was found last
    std::size_t last_receiver_ = 0; // of a packet
    // This peer has the number known_qpn_ at its home, the address known_home_. Null: none is remembered.
    Peer* known_receiver_ = nullptr;
    engine::Address known_home_;
    std::uint32_t known_qpn_ = 0;
    std::atomic<bool> has_rings_{false};
    bool has_full_rings_ = false; // some peer had no room
    bool full_one_is_gone_ = false;
};

} // namespace sluice::roce::near
