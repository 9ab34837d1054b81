// SPDX-License-Identifier: BSD-3-Clause
//
// Two engines and a network between them that loses, delays, duplicates and damages packets as a
// seed says. Time is simulated: it jumps to whatever happens next. Packets cross the network as
// bytes, ICRC included, so that engine and codecs are tested as they will run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "roce/engine/engine.hpp"
#include "roce/wire/icrc.hpp"
#include "tests/unit/roce/random.hpp"

namespace sluice::roce::test {

using namespace engine;

// Plain memory with holes, where the program is said to have unmapped its pages.
class HoledMemory final : public Memory {
  public:
    void make_hole(std::uint64_t addr, std::uint64_t len) { holes_.push_back({addr, len}); }
    std::uint64_t flushes = 0;

    bool copy_in(std::uint64_t to, const void* from, std::size_t len) noexcept override {
        return mapped(to, len) && plain_.copy_in(to, from, len);
    }
    bool copy_out(void* to, std::uint64_t from, std::size_t len) noexcept override {
        return mapped(from, len) && plain_.copy_out(to, from, len);
    }
    bool readable(std::uint64_t addr, std::size_t len) noexcept override { return mapped(addr, len); }
    bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept override {
        return mapped(addr, 8) && plain_.fetch_add(addr, add, original);
    }
    bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override {
        return mapped(addr, 8) && plain_.compare_swap(addr, compare, swap, original);
    }
    bool store(std::uint64_t addr, std::uint64_t value) noexcept override {
        return mapped(addr, 8) && plain_.store(addr, value);
    }
    bool flush(std::uint64_t addr, std::size_t len, std::uint8_t placement) noexcept override {
        ++flushes;
        return mapped(addr, len) && plain_.flush(addr, len, placement);
    }

  private:
    struct Hole {
        std::uint64_t addr;
        std::uint64_t len;
    };
    bool mapped(std::uint64_t addr, std::uint64_t len) const noexcept {
        return std::ranges::none_of(
            holes_, [&](const Hole& hole) { return addr < hole.addr + hole.len && hole.addr < addr + len; });
    }
    std::vector<Hole> holes_;
    PlainMemory plain_;
};

class EventLog final : public EventSink {
  public:
    void event(AsyncEvent event, std::uint32_t) noexcept override {
        if (count < events.size()) {
            events[count] = event;
        }
        ++count;
    }
    void peer_heard(const Ends& /*ends*/) noexcept override { ++peers_heard; }
    Peer silent_peer(const Ends& /*ends*/) noexcept override {
        ++questions;
        return peer;
    }
    Port look_at_port(const Ends&) noexcept override {
        ++looks;
        return port;
    }
    bool saw(AsyncEvent event) const {
        return std::find(events.begin(),
                         events.begin() + static_cast<std::ptrdiff_t>(std::min(count, events.size())),
                         event) !=
               events.begin() + static_cast<std::ptrdiff_t>(std::min(count, events.size()));
    }
    std::array<AsyncEvent, 64> events{};
    std::size_t count = 0;
    Peer peer = Peer::kUnknown;
    int peers_heard = 0;
    int questions = 0;
    int looks = 0; // at the peer's port
    Port port = Port::kNotAsked;
};

inline Address address(std::uint8_t last_byte) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    made.gid[12] = 10;
    made.gid[15] = last_byte;
    return made;
}

// One end: a device with its memory.
// A row for each queue pair, as far as there are some.
class FewRows final : public QueuePairRows {
  public:
    QueuePairRow* acquire() noexcept override {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (!std::exchange(taken_[i], true)) {
                rows_[i].clear();
                return &rows_[i];
            }
        }
        return nullptr;
    }
    void release(QueuePairRow& row) noexcept override {
        row.clear();
        taken_[static_cast<std::size_t>(&row - rows_.data())] = false;
    }
    const QueuePairRow* find(std::uint32_t qpn) const noexcept {
        const auto found =
            std::ranges::find_if(rows_, [&](const QueuePairRow& row) { return row.qpn.get() == qpn; });
        return found == rows_.end() ? nullptr : &*found;
    }

  private:
    std::array<QueuePairRow, 3> rows_;
    std::array<bool, 3> taken_{};
};

struct Host {
    // NEIGHBOURHOOD may be null.
    Host(std::uint8_t number, std::uint64_t seed, Neighbourhood* neighbourhood,
         std::uint32_t cq_entries = 4096)
        : where(address(number)), engine({.max_queue_pairs = 16,
                                          .max_regions = 64,
                                          .secret = RandomKey::repeatable(seed),
                                          .neighbourhood = neighbourhood,
                                          .rows = &rows},
                                         memory, events),
          send_cq(cq_entries), recv_cq(cq_entries) {}

    // Registers VECTOR at its own address.
    std::uint32_t add(std::vector<std::uint8_t>& bytes, std::uint32_t access) {
        const auto addr = reinterpret_cast<std::uintptr_t>(bytes.data());
        return *engine.regions().add_region(kPd, addr, addr, bytes.size(), access);
    }

    static constexpr std::uint32_t kPd = 7;
    Address where;
    HoledMemory memory;
    EventLog events;
    FewRows rows;
    Engine engine;
    CompletionQueue send_cq;
    CompletionQueue recv_cq;
};

struct Faults {
    double loss = 0;
    double duplicate = 0;
    double reorder = 0; // chance of an extra delay that lets others overtake
    double corrupt = 0;
    bool any() const { return loss + duplicate + reorder + corrupt > 0; }
};

inline std::vector<std::uint8_t> to_bytes(const OutPacket& out) {
    std::vector<std::uint8_t> bytes(out.header.begin(), out.header.begin() + out.header_bytes);
    for (std::uint32_t i = 0; i < out.piece_count; ++i) {
        const auto* from = static_cast<const std::uint8_t*>(out.pieces[i].iov_base);
        bytes.insert(bytes.end(), from, from + out.pieces[i].iov_len);
    }
    return bytes;
}

// The ICRC as if over IPv4 with identification 0.
inline std::uint32_t icrc_of(wire::ConstBytes transport, const Address& source, const Address& destination) {
    wire::Ipv4Header ip;
    wire::UdpHeader udp;
    std::copy_n(source.gid.begin() + 12, 4, ip.source.begin());
    std::copy_n(destination.gid.begin() + 12, 4, ip.destination.begin());
    udp.length_bytes =
        static_cast<std::uint16_t>(wire::UdpHeader::kBytes + transport.size() + wire::kIcrcBytes);
    ip.total_bytes = static_cast<std::uint16_t>(wire::Ipv4Header::kBytes + udp.length_bytes);
    const std::uint32_t state = wire::icrc_begin(ip, udp, transport.first<wire::Bth::kBytes>());
    return wire::icrc_end(wire::crc32_update(state, transport.subspan(wire::Bth::kBytes)));
}

class Simulation {
  public:
    Simulation(std::uint64_t seed, const Faults& faults, std::array<Neighbourhood*, 2> neighbourhoods = {})
        : left(1, seed * 2 + 1, neighbourhoods[0]), right(2, seed * 2 + 2, neighbourhoods[1]),
          faults_(faults), random_(seed ^ 0x6e6574) {}

    Host left;
    Host right;
    Nanoseconds now = 1000;
    bool trace = false;
    // May look at, change or swallow (by returning false) what is sent; for tests of single cases.
    std::function<bool(Host& from, std::vector<std::uint8_t>& transport)> tap;
    // Another way, without faults: takes a packet, or doesn't; and hands all that it has to inject().
    std::function<bool(Host& from, const OutPacket& packet)> put_to_memory;
    std::function<bool()> take_from_memory;
    std::uint64_t packets = 0;
    std::uint64_t packets_through_memory = 0;
    std::uint64_t damaged_and_noticed = 0;

    // Sends all that is ready, then goes on to the next thing to happen. False: nothing will.
    bool step() {
        pump(left, right);
        pump(right, left);
        if (take_from_memory && take_from_memory()) {
            return true;
        }
        const Nanoseconds arrival = flights_.empty() ? kNever : flights_.top().when;
        const Nanoseconds next =
            std::min({arrival, left.engine.next_deadline(), right.engine.next_deadline()});
        if (next == kNever) {
            return false;
        }
        now = std::max(now, next);
        left.engine.advance(now);
        right.engine.advance(now);
        if (arrival <= now) {
            const Flight flight = flights_.top();
            flights_.pop();
            deliver(flight);
        }
        return true;
    }
    // False when it never ends.
    bool run(int max_steps = 100000) {
        while (max_steps-- > 0) {
            if (!step()) {
                return true;
            }
        }
        return false;
    }

    // Hands bytes to an engine as the network would, if they parse. Without a PORT they weren't on a wire.
    // These have come through memory.
    void inject(Host& to, const Address& source, const wire::Packet& packet,
                std::optional<std::uint32_t> acknowledged_psn) {
        const wire::Grh grh{};
        to.engine.receive({.packet = packet,
                           .source = source,
                           .destination = to.where,
                           .grh = grh,
                           .through_memory = true,
                           .acknowledged_psn = acknowledged_psn},
                          now);
    }
    void inject(Host& to, const Address& source, wire::ConstBytes transport, std::uint16_t port = 0) {
        wire::Packet packet;
        if (wire::parse(transport, packet) != wire::Refusal::kNone) {
            return;
        }
        const wire::Grh grh{};
        to.engine.receive({packet, source, to.where, grh, port}, now);
    }

  private:
    struct Flight {
        Nanoseconds when = 0;
        std::uint64_t number = 0; // among equals, first sent first
        bool to_right = false;
        std::uint32_t icrc = 0;
        std::vector<std::uint8_t> transport;
        bool operator<(const Flight& other) const {
            return when != other.when ? when > other.when : number > other.number;
        }
    };
    static constexpr Nanoseconds kDelayNs = 5000, kExtraNs = 40000;

    void pump(Host& from, Host& to) {
        do {
            give_out(from, to);
        } while (from.engine.settle());
    }

    void give_out(Host& from, Host& to) {
        OutPacket out;
        while (from.engine.transmit(out, now)) {
            ++packets;
            if (out.through_memory && put_to_memory && put_to_memory(from, out)) {
                ++packets_through_memory;
                continue;
            }
            std::vector<std::uint8_t> transport = to_bytes(out);
            if (tap && !tap(from, transport)) {
                continue;
            }
            const std::uint32_t icrc = icrc_of(transport, from.where, to.where);
            show(from, transport, "sends");
            if (random_.chance(faults_.loss)) {
                show(from, transport, "  lost");
                continue;
            }
            launch(&to == &right, transport, icrc);
            if (random_.chance(faults_.duplicate)) {
                show(from, transport, "  twice");
                launch(&to == &right, transport, icrc);
            }
        }
    }

    void launch(bool to_right, std::vector<std::uint8_t> transport, std::uint32_t icrc) {
        Nanoseconds when = now + kDelayNs;
        if (random_.chance(faults_.reorder)) {
            when += random_.below(kExtraNs);
        }
        if (random_.chance(faults_.corrupt)) {
            const std::uint32_t bit = random_.below(static_cast<std::uint32_t>(transport.size() * 8));
            transport[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        }
        flights_.push({when, ++launched_, to_right, icrc, std::move(transport)});
    }

    void deliver(const Flight& flight) {
        Host& to = flight.to_right ? right : left;
        Host& from = flight.to_right ? left : right;
        if (icrc_of(flight.transport, from.where, to.where) != flight.icrc) {
            ++damaged_and_noticed;
            return;
        }
        show(to, flight.transport, "gets ");
        inject(to, from.where, flight.transport);
    }

    void show(const Host& host, wire::ConstBytes transport, const char* what) const {
        wire::Packet packet;
        if (!trace || wire::parse(transport, packet) != wire::Refusal::kNone) {
            return;
        }
        const wire::OpcodeInfo& info = packet.info();
        std::printf("%12llu %s %s %-24.*s psn %06x", static_cast<unsigned long long>(now),
                    &host == &left ? "left " : "right", what, static_cast<int>(info.name.size()),
                    info.name.data(), packet.bth.psn);
        if (info.has(wire::kHasAeth)) {
            std::printf(" syndrome %02x msn %x", packet.aeth.syndrome, packet.aeth.msn);
        }
        std::printf(" %zu bytes%s\n", packet.payload.size(), packet.bth.ack_request ? " ack!" : "");
    }

    Faults faults_;
    Random random_;
    std::priority_queue<Flight> flights_;
    std::uint64_t launched_ = 0;
};

// Two queue pairs, connected.
struct Pair {
    QueuePair* left = nullptr;
    QueuePair* right = nullptr;
};

inline QpAttributes usual_attributes() {
    return {.access =
                kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent,
            .path_mtu = 256,
            .recv_psn = 100,
            .send_psn = 100,
            .max_rd_atomic = 4,
            .max_dest_rd_atomic = 4,
            .min_rnr_timer = 1,
            .timeout = 8, // about a millisecond
            .retry_count = 7,
            .rnr_retry = 7,
            .local = {},
            .remote = {}};
}

inline bool bring_up(QueuePair& qp, const QpAttributes& attributes) {
    return qp.modify(QpState::kInit, attributes).ok() &&
           qp.modify(QpState::kReadyToReceive, attributes).ok() &&
           qp.modify(QpState::kReadyToSend, attributes).ok();
}

inline QpConfig usual_config(Host& host) {
    return {.pd = Host::kPd,
            .send_cq = &host.send_cq,
            .recv_cq = &host.recv_cq,
            .max_send_wr = 32,
            .max_recv_wr = 32,
            .max_send_sge = 4,
            .max_recv_sge = 4,
            .max_inline = 64};
}

// Connects fresh queue pairs; LEFT's sequence numbers are taken for both directions.
inline Pair connect(Simulation& simulation, const QpAttributes& attributes, const QpConfig& left_config,
                    const QpConfig& right_config) {
    Pair pair = {*simulation.left.engine.create_queue_pair(left_config),
                 *simulation.right.engine.create_queue_pair(right_config)};
    QpAttributes left = attributes;
    left.dest_qpn = pair.right->qpn();
    left.local = simulation.left.where;
    left.remote = simulation.right.where;
    QpAttributes right = attributes;
    right.dest_qpn = pair.left->qpn();
    right.local = simulation.right.where;
    right.remote = simulation.left.where;
    if (!bring_up(*pair.left, left) || !bring_up(*pair.right, right)) {
        std::abort();
    }
    return pair;
}

inline Pair connect(Simulation& simulation, const QpAttributes& attributes) {
    return connect(simulation, attributes, usual_config(simulation.left), usual_config(simulation.right));
}

} // namespace sluice::roce::test
