// SPDX-License-Identifier: BSD-3-Clause
//
// Two hosts of a simulation that reach each other's memory, as two processes of one machine do.
#pragma once

#include <poll.h>

#include "roce/near/same_host.hpp"
#include "tests/unit/roce/simulation.hpp"

namespace sluice::roce::test {

// The other host's memory, with its holes, and this one's.
class SimulatedMemory final : public near::PeerMemory {
  public:
    SimulatedMemory(HoledMemory& own, HoledMemory& peers) : own_(own), peers_(peers) {}

    bool write(std::uint64_t to, std::span<const iovec> from, std::size_t) noexcept override {
        for (const iovec& piece : from) {
            if (!own_.readable(reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len) ||
                !peers_.copy_in(to, piece.iov_base, piece.iov_len)) {
                return false;
            }
            to += piece.iov_len;
        }
        return true;
    }
    bool read(std::span<const iovec> to, std::uint64_t from, std::size_t) noexcept override {
        for (const iovec& piece : to) {
            if (!own_.readable(reinterpret_cast<std::uintptr_t>(piece.iov_base), piece.iov_len) ||
                !peers_.copy_out(piece.iov_base, from, piece.iov_len)) {
                return false;
            }
            from += piece.iov_len;
        }
        return true;
    }
    bool fetch_add(std::uint64_t at, std::uint64_t add, std::uint64_t& original) noexcept override {
        return peers_.fetch_add(at, add, original);
    }
    bool compare_swap(std::uint64_t at, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override {
        return peers_.compare_swap(at, compare, swap, original);
    }

  private:
    HoledMemory& own_;
    HoledMemory& peers_;
};

// The size of a Host's tables.
inline constexpr near::BoardSize kHostsBoard = {.connections = 16, .regions = 64};

// As the kernel changes it.
inline void set_life(LifeMark& mark, std::uint32_t word) {
    __atomic_store_n(&mark.mutex.__data.__lock, static_cast<int>(word), __ATOMIC_RELEASE);
}

// As if a thread of its owner's lived.
inline std::unique_ptr<near::Board> living_board(std::uint8_t number) {
    std::unique_ptr<near::Board> board = *near::Board::create(kHostsBoard, {Share({}, 0), address(number)});
    set_life(board->life(), 1);
    return board;
}

inline near::PeerBoard seen_by_others(const near::Board& board) {
    return *near::PeerBoard::map(Descriptor(dup(board.descriptor())));
}

struct NearHosts {
    NearHosts()
        : left(living_board(1), nowhere, left_counters),
          right(living_board(2), nowhere, right_counters), both{&left, &right} {}

    // Each has the other's board, and waits for the other.
    void introduce(Simulation& net) {
        left_ring = introduce(left, right, net.left, net.right);
        right_ring = introduce(right, left, net.right, net.left);
        left.waits_for_us(right.board().id(), 0, {});
        right.waits_for_us(left.board().id(), 0, {});
    }

    // From now on, packets go through rings. Each side is about to sleep all the time, and does something
    // only when its bell is rung.
    void give_rings(Simulation& net) {
        give_ring(left, right, right_ring);
        give_ring(right, left, left_ring);
        (void)left.fall_asleep();
        (void)right.fall_asleep();
        net.put_to_memory = [&](Host& from, const OutPacket& packet) {
            return (&from == &net.left ? left : right).send(packet);
        };
        net.take_from_memory = [&] {
            const bool left_took = take(net, left, net.left);
            return take(net, right, net.right) || left_took;
        };
    }

    static bool is_rung(const near::SameHost& host) {
        pollfd bell{.fd = host.bell().own_end(), .events = POLLIN, .revents = 0};
        return poll(&bell, 1, 0) == 1;
    }
    // False: its bell wasn't rung.
    static bool take(Simulation& net, near::SameHost& near, Host& host) {
        if (!is_rung(near)) {
            return false;
        }
        near.wake_up();
        do {
            near.read_packets([&](const near::RingPacket& in) {
                net.inject(host, in.source, in.packet, in.acknowledged_psn);
            });
            if (near.room_again()) {
                host.engine.room_again();
            }
        } while (!near.fall_asleep());
        return true;
    }

    // RING: what AT reads of what the other one writes.
    static Descriptor introduce(near::SameHost& at, const near::SameHost& other, Host& own, Host& others) {
        near::Peer peer{.board = seen_by_others(other.board()),
                        .memory = std::make_unique<SimulatedMemory>(own.memory, others.memory)};
        peer.from_it = std::make_unique<near::RingReader>(*near::RingReader::create());
        const near::Peer* const added = at.add(std::move(peer));
        return Descriptor(dup(added->from_it->descriptor()));
    }
    static void give_ring(near::SameHost& writer, const near::SameHost& reader, const Descriptor& ring) {
        writer.waits_for_us(reader.board().id(), 0, ways_to(reader, ring));
    }
    // At the first place: READER knows nobody else.
    static near::SameHost::Ways ways_to(const near::SameHost& reader, const Descriptor& ring) {
        return {.ring = std::make_unique<near::RingWriter>(*near::RingWriter::map(ring)),
                .bell = Descriptor(dup(reader.bell().far_end()))};
    }

    PlainMemory nowhere; // nothing is mapped twice
    near::DirectCounters left_counters;
    near::DirectCounters right_counters;
    near::SameHost left;
    near::SameHost right;
    std::array<Neighbourhood*, 2> both;
    Descriptor left_ring; // left reads it
    Descriptor right_ring;
};

} // namespace sluice::roce::test
