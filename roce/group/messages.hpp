// SPDX-License-Identifier: BSD-3-Clause
//
// What the processes of one address say to each other. Both ends run on one machine: numbers are as it has
// them. A message is as long as its structure, but for a packet, behind which the packet's bytes follow.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "roce/engine/types.hpp"
#include "roce/group/table.hpp"
#include "roce/wire/ip.hpp"

namespace sluice::roce::group {

enum class Kind : std::uint32_t {
    kWelcome = 1,
    kAskForSockets,
    kSockets,
    kHello,
    kPacket,
    kAsk,
    kTell,
    kFurther,
    kGivenBack,
    kBoard,
    kBoardTaken,
    kIntroduced
};

// To a visitor at a door. Descriptors: the table, the group's own door, the common socket.
struct Welcome {
    static constexpr Kind kKind = Kind::kWelcome;
    Kind kind = kKind;
    std::uint32_t version = kVersion;
    std::uint32_t is_further = 0; // the door of a further address, where no process joins
    static constexpr std::uint32_t kVersion = 11;
};

// From a visitor that holds the joining lock.
struct AskForSockets {
    static constexpr Kind kKind = Kind::kAskForSockets;
    Kind kind = kKind;
};

// Descriptors: the seats' sockets, in the order of the seats. So many messages of the next kind follow.
struct Sockets {
    static constexpr Kind kKind = Kind::kSockets;
    Kind kind = kKind;
    std::uint32_t further = 0;
};

// To a visitor, and to all members from the one that adds some. Descriptors: those of a FurtherAddress from
// FIRST on. NUMBER is the address's among the further ones, which a later GENERATION has from then on: a
// member may read what two others said in another order than they said it.
struct Further {
    static constexpr Kind kKind = Kind::kFurther;
    Kind kind = kKind;
    std::uint32_t first = 0;
    std::uint32_t number = 0;
    engine::Address address;
    std::uint64_t generation = 0;
};

// To all members: no process uses this further address any more, as it was in this generation.
struct GivenBack {
    static constexpr Kind kKind = Kind::kGivenBack;
    Kind kind = kKind;
    std::uint32_t number = 0;
    std::uint64_t generation = 0;
};

// The first on a line, from the member that called. Descriptor: its socket, if it is a new one.
struct Hello {
    static constexpr Kind kKind = Kind::kHello;
    Kind kind = kKind;
    std::uint32_t seat = 0;
    Holder holder = kNobody;
};

struct PacketHead {
    static constexpr Kind kKind = Kind::kPacket;
    Kind kind = kKind;
    std::uint32_t source_port = 0;
    engine::Address source;
    engine::Address destination; // the group's, or a further one of its device
    wire::Grh grh{};
};

// Whether the peer of ENDS, the asking process's view of a connection, is connected so.
struct Ask {
    static constexpr Kind kKind = Kind::kAsk;
    Kind kind = kKind;
    engine::Ends ends;
};

// The answer to an Ask of ENDS. It may come late, when the asking process uses its queue pair otherwise.
struct Tell {
    static constexpr Kind kKind = Kind::kTell;
    Kind kind = kKind;
    std::uint32_t connected = 0;
    engine::Ends ends;
};

// Over each line, once from each end. Descriptor: the sender's board (Arrivals::board()).
struct Board {
    static constexpr Kind kKind = Kind::kBoard;
    Kind kind = kKind;
};

// The answer to a Board. If it is TAKEN, the board's sender may touch the memory of the process that answers,
// which has sent its own board, with ID, over the same line before. Descriptors: none, or the ring and the
// bell of Arrivals::Admission, whose place is PLACE.
struct BoardTaken {
    static constexpr Kind kKind = Kind::kBoardTaken;
    Kind kind = kKind;
    std::uint32_t taken = 0;
    std::uint64_t id = 0;
    std::uint64_t place = 0;
};

// The answer to a BoardTaken between members: its sender goes by that from now on.
struct Introduced {
    static constexpr Kind kKind = Kind::kIntroduced;
    Kind kind = kKind;
};

// MESSAGE as what its kind says, if it is long enough.
template<typename Message>
std::optional<Message> read_as(std::span<const std::uint8_t> message) noexcept {
    Message read;
    if (message.size() < sizeof read) {
        return std::nullopt;
    }
    std::memcpy(&read, message.data(), sizeof read);
    return read.kind == Message::kKind ? std::optional(read) : std::nullopt;
}

} // namespace sluice::roce::group
