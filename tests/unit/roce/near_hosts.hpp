// SPDX-License-Identifier: BSD-3-Clause
//
// Two hosts of a simulation that reach each other's memory, as two processes of one machine do.
#pragma once

#include <sys/eventfd.h>

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

// As if a thread of its owner's lived.
inline std::unique_ptr<near::Board> living_board(std::uint8_t number) {
    std::unique_ptr<near::Board> board = *near::Board::create(kHostsBoard, {Share({}, 0), address(number)});
    board->life() = 1;
    return board;
}

inline near::PeerBoard seen_by_others(const near::Board& board) {
    return *near::PeerBoard::map(Descriptor(dup(board.descriptor())));
}

struct NearHosts {
    NearHosts()
        : left(living_board(1), Descriptor(eventfd(0, EFD_NONBLOCK)), nowhere, left_counters),
          right(living_board(2), Descriptor(eventfd(0, EFD_NONBLOCK)), nowhere, right_counters),
          both{&left, &right} {}

    // From now on, packets go through rings.
    void give_rings(Simulation& net) {
        const auto give = [](near::SameHost& to, near::SameHost& reader) {
            near::RingReader ring = *near::RingReader::create();
            auto writer = std::make_unique<near::RingWriter>(
                *near::RingWriter::map(Descriptor(dup(ring.descriptor()))));
            to.waits_for_us(reader.board().id(), std::move(writer), Descriptor(dup(reader.bell())));
            return std::make_unique<near::RingReader>(std::move(ring));
        };
        left_reads = give(right, left);
        right_reads = give(left, right);
        net.put_to_memory = [&](Host& from, const OutPacket& packet) {
            return (&from == &net.left ? left : right).send(packet);
        };
        net.take_from_memory = [&] {
            const bool any = read(net, *left_reads, net.left) || read(net, *right_reads, net.right);
            for (auto [side, host] : {std::pair(&left, &net.left), std::pair(&right, &net.right)}) {
                if (side->room_again()) {
                    host->engine.room_again();
                }
            }
            return any;
        };
    }
    static bool read(Simulation& net, near::RingReader& ring, Host& to) {
        bool any = false;
        (void)ring.read([&](const wire::Packet& packet, const Address& source, const Address&) {
            net.inject(to, source, packet);
            any = true;
        });
        (void)ring.made_room();
        return any;
    }

    // Each has the other's board, and waits for the other.
    void introduce(Simulation& net) {
        (void)left.add({.board = seen_by_others(right.board()),
                        .memory = std::make_unique<SimulatedMemory>(net.left.memory, net.right.memory)});
        (void)right.add({.board = seen_by_others(left.board()),
                         .memory = std::make_unique<SimulatedMemory>(net.right.memory, net.left.memory)});
        left.waits_for_us(right.board().id(), nullptr, {});
        right.waits_for_us(left.board().id(), nullptr, {});
    }

    PlainMemory nowhere; // nothing is mapped twice
    near::DirectCounters left_counters;
    near::DirectCounters right_counters;
    near::SameHost left;
    near::SameHost right;
    std::array<Neighbourhood*, 2> both;
    std::unique_ptr<near::RingReader> left_reads;
    std::unique_ptr<near::RingReader> right_reads;
};

} // namespace sluice::roce::test
