// SPDX-License-Identifier: BSD-3-Clause
#include "tools/ladder/lanes.hpp"

namespace sluice::tools::ladder {

namespace {

constexpr std::uint32_t kNobody = 0xffffffff; // no queue pair, and no lane
constexpr std::uint64_t kReq = 0x10;
constexpr std::uint32_t kPsnMask = 0xffffff, kHalfOfPsns = 0x800000;

} // namespace

// Packet numbers go round: half of them are above any other.
bool Lanes::Highest::passes(std::uint32_t next) {
    const std::uint32_t distance = psn ? (next - *psn) & kPsnMask : 1;
    if (distance == 0 || distance >= kHalfOfPsns) {
        return false;
    }
    psn = next;
    return true;
}

Lanes::Address Lanes::address(std::string_view text) {
    const auto found = addresses_.find(text);
    if (found != addresses_.end()) {
        return found->second;
    }
    const auto number = static_cast<Address>(address_texts_.size());
    address_texts_.emplace_back(text);
    addresses_.emplace(text, number);
    return number;
}

std::uint32_t Lanes::make(Lane lane) {
    lanes_.push_back(lane);
    return static_cast<std::uint32_t>(lanes_.size() - 1);
}

void Lanes::join(std::uint32_t one, std::uint32_t other) {
    lanes_[one].other = other;
    lanes_[other].other = one;
}

Lanes::Entry Lanes::add(const Packet& packet) {
    const std::uint32_t lane = packet.kind == Kind::kConnection ? lane_of_message(packet) : lane_of(packet);
    if (!lanes_[lane].is_datagram && !lanes_[lane].other) {
        match_answer(lane, packet);
    }
    return {lane, is_again(lane, packet)};
}

std::uint32_t Lanes::lane_of(const Packet& packet) {
    const Address source = address(packet.source), destination = address(packet.destination);
    const std::uint32_t qpn = packet.dest_qpn.value_or(kNobody), from = packet.src_qpn.value_or(kNobody);
    const auto [place, is_new] = by_key_.try_emplace({source, destination, qpn, from}, 0);
    if (is_new) {
        // Where neither end is told there are only addresses, which are the same in the other direction.
        place->second = make({.source = source,
                              .destination = destination,
                              .qpn = packet.dest_qpn,
                              .source_qpn = packet.src_qpn,
                              .is_datagram = packet.src_qpn || !packet.dest_qpn});
        const auto other = by_key_.find({destination, source, from, qpn});
        if (lanes_[place->second].is_datagram && other != by_key_.end() && other->second != place->second) {
            join(place->second, other->second);
        }
    }
    return place->second;
}

// Their packets go from one queue pair 1 to another, and are about the connection that they make.
std::uint32_t Lanes::lane_of_message(const Packet& packet) {
    const std::optional<std::uint32_t> known = known_exchange(packet);
    if (!known && (!packet.local_comm_id || !packet.local_qpn)) {
        return lane_of(packet);
    }
    const std::uint32_t lane = known ? *known : open(packet);
    if (packet.local_comm_id) {
        exchanges_[{address(packet.source), *packet.local_comm_id}] = lane;
    }
    learn(*lanes_[lane].other, packet);
    return lane;
}

// A side that rejects may have no communication id of its own; the peer's is asked first.
std::optional<std::uint32_t> Lanes::known_exchange(const Packet& packet) {
    if (packet.remote_comm_id) {
        const auto of_peer = exchanges_.find({address(packet.destination), *packet.remote_comm_id});
        if (of_peer != exchanges_.end()) {
            return lanes_[of_peer->second].other;
        }
    }
    const auto own = exchanges_.find({address(packet.source), packet.local_comm_id.value_or(0)});
    if (!packet.local_comm_id || own == exchanges_.end() ||
        (packet.message == kReq && lanes_[own->second].transaction != packet.transaction)) {
        return std::nullopt;
    }
    return own->second;
}

std::uint32_t Lanes::open(const Packet& packet) {
    const Address source = address(packet.source), destination = address(packet.destination);
    const std::uint32_t forth =
        make({.source = source, .destination = destination, .transaction = packet.transaction});
    join(forth, make({.source = destination, .destination = source, .transaction = packet.transaction}));
    return forth;
}

// A REQ or REP tells the queue pair to which LANE leads. A number that is used again has a new lane.
void Lanes::learn(std::uint32_t lane, const Packet& packet) {
    if (lanes_[lane].qpn || !packet.local_qpn) {
        return;
    }
    lanes_[lane].qpn = packet.local_qpn;
    by_key_[{lanes_[lane].source, lanes_[lane].destination, *packet.local_qpn, kNobody}] = lane;
}

// Requests leave a note of their packet number, by which answers find them; two of the same are no proof.
void Lanes::match_answer(std::uint32_t lane, const Packet& packet) {
    const Lane& from = lanes_[lane];
    if (packet.kind == Kind::kRequest) {
        const auto [note, is_new] = sent_.try_emplace({from.source, from.destination, packet.psn}, lane);
        note->second = is_new || note->second == lane ? lane : kNobody;
        return;
    }
    const auto note = sent_.find({from.destination, from.source, packet.psn});
    if (note != sent_.end() && note->second != kNobody && note->second != lane &&
        !lanes_[note->second].other) {
        join(lane, note->second);
    }
}

bool Lanes::is_again(std::uint32_t lane, const Packet& packet) {
    if (packet.kind == Kind::kConnection) {
        return !messages_.emplace(lane, packet.message, packet.transaction).second;
    }
    if (packet.src_qpn || (packet.kind != Kind::kRequest && packet.kind != Kind::kResponse)) {
        return false;
    }
    Lane& at = lanes_[lane];
    return !(packet.kind == Kind::kRequest ? at.requests : at.responses).passes(packet.psn);
}

// Where one lane is left in each direction between two addresses, there is no other for it.
void Lanes::join_last() {
    std::map<std::pair<Address, Address>, std::vector<std::uint32_t>> left;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
        if (!lanes_[i].other && !lanes_[i].is_datagram) {
            left[{lanes_[i].source, lanes_[i].destination}].push_back(i);
        }
    }
    for (const auto& [way, lanes] : left) {
        const auto back = left.find({way.second, way.first});
        if (way.first == way.second && lanes.size() == 2) {
            join(lanes[0], lanes[1]);
        } else if (way.first < way.second && back != left.end() && lanes.size() == 1 &&
                   back->second.size() == 1) {
            join(lanes[0], back->second[0]);
        }
    }
}

std::vector<Place> Lanes::finish() {
    join_last();
    std::vector<Place> places(lanes_.size());
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
        const Lane& lane = lanes_[i];
        if (lane.other && *lane.other < i) {
            places[i] = {.connection = places[*lane.other].connection, .is_forth = false};
            continue;
        }
        places[i].connection = static_cast<std::uint32_t>(connections_.size());
        connections_.push_back(
            {End{address_texts_[lane.source], lane.other ? lanes_[*lane.other].qpn : lane.source_qpn},
             End{address_texts_[lane.destination], lane.qpn}});
    }
    return places;
}

} // namespace sluice::tools::ladder
