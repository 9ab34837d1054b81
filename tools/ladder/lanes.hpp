// SPDX-License-Identifier: BSD-3-Clause
//
// Which packets belong to one connection.
//
// A lane is what goes from one address to one queue pair; two lanes make a connection. A packet of a
// connected queue pair names the peer's queue pair and not its sender's. Therefore lanes find each other by
// what recordings tell: by messages of the connection manager, by an answer that has the packet number of a
// request, and last because no other lane is left between two addresses.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tools/ladder/packet.hpp"

namespace sluice::tools::ladder {

struct End {
    std::string address;
    std::optional<std::uint32_t> qpn; // nothing: the recording doesn't tell it
};

using Ends = std::array<End, 2>;

// Where a lane was in the end: its connection, and whether its packets go to the second end.
struct Place {
    std::uint32_t connection = 0;
    bool is_forth = true;
};

class Lanes {
  public:
    struct Entry {
        std::uint32_t lane = 0;
        bool again = false; // it has been sent before
    };

    Entry add(const Packet& packet);

    // After the last packet: a place for each lane, and the ends of each connection.
    std::vector<Place> finish();
    const std::vector<Ends>& connections() const { return connections_; }

  private:
    using Address = std::uint32_t; // a number for each
    using Key = std::tuple<Address, Address, std::uint32_t, std::uint32_t>;

    struct Highest {
        std::optional<std::uint32_t> psn;
        bool passes(std::uint32_t next); // false where NEXT isn't above it
    };
    struct Lane {
        Address source = 0;
        Address destination = 0;
        std::optional<std::uint32_t> qpn{};
        std::optional<std::uint32_t> source_qpn{};
        std::optional<std::uint32_t> other{}; // the lane in the opposite direction
        bool is_datagram = false;
        std::uint64_t transaction = 0; // of the REQ that opened it
        Highest requests{};
        Highest responses{};
    };

    Address address(std::string_view text);
    std::uint32_t make(Lane lane);
    void join(std::uint32_t one, std::uint32_t other);
    std::uint32_t lane_of(const Packet& packet);
    std::uint32_t lane_of_message(const Packet& packet);
    std::optional<std::uint32_t> known_exchange(const Packet& packet);
    std::uint32_t open(const Packet& packet);
    void learn(std::uint32_t lane, const Packet& packet);
    void match_answer(std::uint32_t lane, const Packet& packet);
    bool is_again(std::uint32_t lane, const Packet& packet);
    void join_last();

    std::map<std::string, Address, std::less<>> addresses_;
    std::vector<std::string> address_texts_;
    std::vector<Lane> lanes_;
    std::map<Key, std::uint32_t> by_key_;
    // The lane in which the owner of a communication id sends.
    std::map<std::pair<Address, std::uint32_t>, std::uint32_t> exchanges_;
    std::map<std::tuple<Address, Address, std::uint32_t>, std::uint32_t> sent_; // by packet number
    std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> messages_;
    std::vector<Ends> connections_;
};

} // namespace sluice::tools::ladder
