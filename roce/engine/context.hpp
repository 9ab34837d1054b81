// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of a queue pair share: its surroundings, its attributes, and the two ways in which
// data meets scatter-gather lists.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "core/count.hpp"
#include "core/probes.hpp"
#include "roce/engine/completion_queue.hpp"
#include "roce/engine/memory.hpp"
#include "roce/engine/neighbourhood.hpp"
#include "roce/engine/operation_counter.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/engine/queue_pair_row.hpp"
#include "roce/engine/region_table.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

struct Counters {
    Count dropped_unknown_qp;
    Count dropped_wrong_peer;  // source, pkey, qkey or transport of another
    Count dropped_wrong_port;  // the peer's address, and not the port that it sends from
    Count dropped_wrong_state; // queue pair isn't ready for this
    Count dropped_no_room;     // replies waiting, or a message without a receive that nobody tells of
    Count dropped_messages;    // UC: broken off, or of no use here
    Count duplicates;
    Count out_of_sequence;
    Count timeouts;
    Count rewinds; // for whatever reason
    Count rnr_naks_in;
    Count stray_responses;
    Count rnr_naks_out;
    Count packets_again;     // sent once more, because of a timeout or a NAK
    Count messages_sent;     // requests that ended well, whether or not their completion was asked for
    Count messages_received; // requests of peers that were executed, and datagrams that were stored
    std::array<Count, kStatuses> completions; // by Status
};

struct QpContext {
    RegionTable& regions;
    Memory& memory;
    EventSink& events;
    Counters& counters;
    QpCounters& own_counters;
    CompletionQueue& send_cq;
    CompletionQueue& recv_cq;
    std::uint32_t qpn;
    std::uint32_t pd;
    QpAttributes attr;
    // A peer of which nothing is known isn't lost before it has been silent for so long.
    Nanoseconds min_silence;
    Neighbourhood* neighbourhood; // null: all requests are packets
    std::uint8_t opcodes = 0;     // in front of each of RC's: 0, or XRC's
    OperationCounters operation_counters = {};
    // For packets to the peer, as seen in this turn of the queue pair. Requests that are executed at once
    // need none, so that it is looked for when something asks.
    std::optional<Neighbourhood::Room> seen_room = Neighbourhood::Room::kNoWay;

    // The peer has sent something that was expected, or lets its memory be touched: it is there.
    bool is_peer_heard = false;
    void hear_peer() noexcept {
        if (!is_peer_heard) {
            is_peer_heard = true;
            events.peer_heard(ends());
        }
    }

    bool is_xrc() const noexcept { return opcodes == wire::kXrcOpcodes; }
    Neighbourhood::Room room() noexcept {
        if (!seen_room) {
            seen_room = neighbourhood->room(ends());
        }
        return *seen_room;
    }
    bool is_full() noexcept { return room() == Neighbourhood::Room::kFull; }
    bool goes_through_memory() noexcept { return room() != Neighbourhood::Room::kNoWay; }
    Ends ends() const noexcept {
        return {.local = attr.local, .qpn = qpn, .remote = attr.remote, .peer_qpn = attr.dest_qpn};
    }

    // For the device and for this queue pair.
    void count(Count Counters::*all, Count QpCounters::*own) noexcept {
        ++(counters.*all);
        ++(own_counters.*own);
    }
    void count_drop(Count Counters::*reason) noexcept { count(reason, &QpCounters::dropped); }
    // A request of ours that ended well.
    void count_sent(WrOpcode opcode, std::uint32_t len_bytes) noexcept {
        count(&Counters::messages_sent, &QpCounters::messages_sent);
        (is_fetching(opcode) ? own_counters.bytes_received : own_counters.bytes_sent).add(len_bytes);
    }
    // A request of the peer's that was executed: it brought so many bytes, or takes so many.
    void count_received(std::uint32_t brought, std::uint32_t taken = 0) noexcept {
        count(&Counters::messages_received, &QpCounters::messages_received);
        own_counters.bytes_received.add_any(brought);
        own_counters.bytes_sent.add_any(taken);
    }

    void complete(CompletionQueue& queue, Completion completion) noexcept {
        completion.qpn = qpn;
        SLUICE_PROBE(completion, qpn, completion.wr_id, static_cast<std::uint32_t>(completion.status),
                     static_cast<std::uint32_t>(completion.opcode), completion.len_bytes);
        ++counters.completions[static_cast<std::size_t>(completion.status)];
        ++(completion.status == Status::kSuccess   ? own_counters.completions_good
           : completion.status == Status::kFlushed ? own_counters.completions_flushed
                                                   : own_counters.completions_failed);
        const bool broken = queue.overflowed();
        if (!queue.push(completion) && !broken) {
            events.event(AsyncEvent::kCqError, qpn);
        }
        const bool received =
            completion.opcode == WcOpcode::kRecv || completion.opcode == WcOpcode::kRecvWriteImm;
        if (operation_counters.any() && received) [[unlikely]] {
            operation_counters.count(CountedKind::kReceive, completion.status, completion.len_bytes);
        }
    }

    // A request about keys, which needs no peer. False: nothing has changed.
    bool run_local(const SendWr& wr) noexcept {
        return wr.opcode == WrOpcode::kBindMw ? regions.bind(wr.bind, pd, qpn)
                                              : regions.invalidate(wr.imm_or_rkey, pd, qpn);
    }

    // Calls STEP(sge, offset into it, length) for each part of [OFFSET, OFFSET + LEN) of the list,
    // until one returns false.
    template<typename Step>
    static bool walk(std::span<const Sge> sges, std::uint64_t offset, std::uint64_t len,
                     Step&& step) noexcept {
        for (const Sge& sge : sges) {
            if (len == 0) {
                return true;
            }
            if (offset >= sge.len_bytes) {
                offset -= sge.len_bytes;
                continue;
            }
            const auto part =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(sge.len_bytes - offset, len));
            if (!step(sge, static_cast<std::uint32_t>(offset), part)) {
                return false;
            }
            len -= part;
            offset = 0;
        }
        return len == 0;
    }

    // Hands out bytes of a gather list: a few as a copy, more of them by reference. False: a key doesn't fit,
    // or a page is gone.
    bool gather(std::span<const Sge> sges, std::uint64_t offset, std::uint32_t len, OutPacket& out) noexcept {
        return len <= kCopiedBytes ? gather_copy(sges, offset, len, out)
                                   : gather_pieces(sges, offset, len, out);
    }
    bool gather_copy(std::span<const Sge> sges, std::uint64_t offset, std::uint32_t len,
                     OutPacket& out) noexcept {
        std::uint8_t* to = out.copied.data();
        const bool done =
            walk(sges, offset, len, [&](const Sge& sge, std::uint32_t skip, std::uint32_t part) {
                const auto host = regions.local(sge.lkey, pd, sge.addr + skip, part, 0);
                if (!host || !memory.read(to, *host, part)) {
                    return false;
                }
                to += part;
                return true;
            });
        if (done && len != 0) {
            out.add_piece(reinterpret_cast<std::uintptr_t>(out.copied.data()), len);
        }
        out.payload_is_ours = true;
        return done;
    }
    bool gather_pieces(std::span<const Sge> sges, std::uint64_t offset, std::uint32_t len,
                       OutPacket& out) noexcept {
        return walk(sges, offset, len, [&](const Sge& sge, std::uint32_t skip, std::uint32_t part) {
            const auto host = regions.local(sge.lkey, pd, sge.addr + skip, part, 0);
            if (!host || !memory.readable(*host, part)) {
                return false;
            }
            out.add_piece(*host, part);
            return true;
        });
    }

    // Copies DATA into a scatter list. False as above; what was copied before stays.
    bool scatter(std::span<const Sge> sges, std::uint64_t offset, wire::ConstBytes data) noexcept {
        return scatter(pd, sges, offset, data);
    }
    // For the keys of DOMAIN.
    bool scatter(std::uint32_t domain, std::span<const Sge> sges, std::uint64_t offset,
                 wire::ConstBytes data) noexcept {
        return walk(sges, offset, data.size(), [&](const Sge& sge, std::uint32_t skip, std::uint32_t part) {
            const auto host = regions.local(sge.lkey, domain, sge.addr + skip, part, kLocalWrite);
            if (!host || !memory.copy_in(*host, data.data(), part)) {
                return false;
            }
            data = data.subspan(part);
            return true;
        });
    }
};

inline std::uint32_t packet_count(std::uint32_t len_bytes, std::uint32_t mtu) noexcept {
    return len_bytes == 0 ? 1 : (len_bytes - 1) / mtu + 1;
}

// 9.7.4.1, 9.8.2.2: first and middle packets are full, last ones not empty.
inline bool fits_its_place(const wire::Packet& packet, std::uint32_t mtu) noexcept {
    const std::size_t len = packet.payload.size();
    if (!packet.info().ends()) {
        return len == mtu;
    }
    return len <= mtu && (packet.info().starts() || len != 0);
}

// Of a message that PACKET ends.
inline Completion completion_of(const wire::Packet& packet, std::uint64_t wr_id, WcOpcode opcode,
                                std::uint32_t len_bytes) noexcept {
    Completion completion = {.wr_id = wr_id, .opcode = opcode, .len_bytes = len_bytes};
    if (packet.info().has(wire::kHasImmDt)) {
        completion.flags |= kWithImm;
        completion.imm_or_rkey = packet.imm.data;
    }
    if (packet.info().has(wire::kHasIeth)) {
        completion.flags |= kWithInv;
        completion.imm_or_rkey = packet.ieth.rkey;
    }
    if (packet.bth.solicited) {
        completion.flags |= kSolicitedEvent;
    }
    return completion;
}

} // namespace sluice::roce::engine
