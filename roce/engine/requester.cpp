// SPDX-License-Identifier: BSD-3-Clause
//
// The sending side of the requester: which packet comes next. What answers do is in
// requester_response.cpp.
#include "roce/engine/requester.hpp"

#include "core/probes.hpp"
#include "roce/wire/syndrome.hpp"

namespace sluice::roce::engine {

using wire::Packet;
using wire::psn_add;
using wire::psn_distance;

namespace {

// The opcode of packet INDEX of COUNT.
std::uint8_t send_opcode(WrOpcode opcode, bool first, bool last) noexcept {
    if (!last) {
        return first ? wire::kRcSendFirst : wire::kRcSendMiddle;
    }
    if (opcode == WrOpcode::kSendImm) {
        return first ? wire::kRcSendOnlyImm : wire::kRcSendLastImm;
    }
    if (opcode == WrOpcode::kSendInv) {
        return first ? wire::kRcSendOnlyInv : wire::kRcSendLastInv;
    }
    return first ? wire::kRcSendOnly : wire::kRcSendLast;
}

std::uint8_t write_opcode(WrOpcode opcode, bool first, bool last) noexcept {
    if (!last) {
        return first ? wire::kRcWriteFirst : wire::kRcWriteMiddle;
    }
    if (opcode == WrOpcode::kWriteImm) {
        return first ? wire::kRcWriteOnlyImm : wire::kRcWriteLastImm;
    }
    return first ? wire::kRcWriteOnly : wire::kRcWriteLast;
}

std::uint8_t opcode_of(WrOpcode opcode, bool first, bool last) noexcept {
    switch (opcode) {
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
        return write_opcode(opcode, first, last);
    case WrOpcode::kRead:
        return wire::kRcReadRequest;
    case WrOpcode::kCompareSwap:
        return wire::kRcCompareSwap;
    case WrOpcode::kFetchAdd:
        return wire::kRcFetchAdd;
    case WrOpcode::kAtomicWrite:
        return wire::kRcAtomicWrite;
    case WrOpcode::kFlush:
        return wire::kRcFlush;
    default:
        return send_opcode(opcode, first, last);
    }
}

} // namespace

void Requester::start() noexcept {
    cursor_ = fresh_ = behind_messages_ = queue_.head();
    direct_failed_ = through_memory_ = false;
    cursor_packet_ = 0;
    una_psn_ = next_psn_ = sent_limit_ = context_.attr.send_psn & wire::kPsnMask;
    since_ack_request_ = rd_in_flight_ = data_due_ = 0;
    retries_left_ = context_.attr.retry_count;
    rnr_retries_left_ = context_.attr.rnr_retry;
    rewound_ = held_ = peer_is_gone_ = false;
    waits_ = 0;
    vain_answers_ = 0;
    port_refusals_ = 0;
    looks_ = false;
    ack_deadline_ = rnr_until_ = silent_since_ = look_at_ = kNever;
    local_error_.reset();
    refusal_.reset();
    failure_.reset();
}

std::uint32_t Requester::cursor_psn() noexcept {
    return cursor_ == fresh_ ? next_psn_ : psn_add(queue_.at(cursor_).first_psn, cursor_packet_);
}

void Requester::assign_numbers(SendEntry& entry) noexcept {
    entry.first_psn = next_psn_;
    entry.packets = entry.is_local() ? 0 : packet_count(entry.len_bytes, context_.attr.path_mtu);
    next_psn_ = psn_add(next_psn_, entry.packets);
    ++fresh_;
    data_due_ += entry.needs_response() ? 1 : 0;
    if (!entry.is_one_sided()) {
        behind_messages_ = fresh_;
    }
}

bool Requester::transmit(OutPacket& out, const Moment& now) noexcept {
    if (peer_is_gone_) {
        peer_is_gone(); // for what was posted since
    }
    while (!failure_ && !local_error_ && !refusal_ && rnr_until_ == kNever && cursor_ != end()) {
        SendEntry& entry = queue_.at(cursor_);
        if (is_first_in_line() && may_run_direct(entry) && run_direct(entry)) {
            continue;
        }
        if (cursor_ == fresh_) {
            if (will_be_direct(entry) || !chooses_way()) {
                return false;
            }
            assign_numbers(entry);
        }
        if (!may_start(entry)) {
            return false;
        }
        if (entry.is_local()) {
            if (entry.done || run_local(entry)) {
                ++cursor_;
                retire_answered();
            }
        } else if (through_memory_ && context_.is_full()) {
            await_answer(now); // as for a packet that was lost
            return false;
        } else if (emit(entry, out)) {
            moved_on(entry, entry.wr.opcode == WrOpcode::kRead ? entry.packets - cursor_packet_ : 1, now);
            return true;
        }
        if (local_error_) {
            retire_answered(); // nothing may be before it
        }
    }
    return false;
}

// Packets on one way overtake those on another, so that one is changed only while nothing is unanswered.
bool Requester::chooses_way() noexcept {
    const bool through_memory = context_.goes_through_memory();
    if (through_memory_ != through_memory && una_psn_ != next_psn_) {
        return false;
    }
    through_memory_ = through_memory;
    return true;
}

// 10.8.3.3: a fence waits for reads and atomics before it. Besides: the window, and the number of
// reads and atomics that the peer keeps for us.
bool Requester::may_start(const SendEntry& entry) const noexcept {
    const bool fenced = (entry.wr.flags & kFence) != 0 && cursor_packet_ == 0;
    if (fenced && rd_in_flight_ != 0) {
        return false;
    }
    if (entry.is_local()) {
        return true;
    }
    if (psn_distance(psn_add(entry.first_psn, cursor_packet_), una_psn_) >= kWindowPsns) {
        return false;
    }
    return !entry.needs_response() || context_.attr.max_rd_atomic == 0 ||
           rd_in_flight_ < context_.attr.max_rd_atomic;
}

bool Requester::run_local(SendEntry& entry) noexcept {
    entry.done = context_.run_local(entry.wr);
    if (!entry.done) {
        local_error_ = Status::kMwBind;
    }
    return entry.done;
}

bool Requester::emit(SendEntry& entry, OutPacket& out) noexcept {
    if (entry.needs_response() && context_.attr.max_rd_atomic == 0) {
        local_error_ = Status::kLocalQpOperation;
        return false;
    }
    Packet& packet = out.begin();
    if (!emit_payload(entry, out)) {
        local_error_ = Status::kLocalProtection;
        return false;
    }
    emit_headers(entry, packet);
    packet.bth.ack_request = packet.info().ends() || since_ack_request_ + 1 >= kPacketsPerAckRequest;
    since_ack_request_ = packet.bth.ack_request ? 0 : since_ack_request_ + 1;
    out.finish();
    out.through_memory = through_memory_;
    out.source = context_.attr.local;
    out.destination = context_.attr.remote;
    return true;
}

void Requester::emit_headers(const SendEntry& entry, Packet& packet) const noexcept {
    const SendWr& wr = entry.wr;
    const bool first = cursor_packet_ == 0;
    const bool last = cursor_packet_ + 1 == entry.packets;
    const std::uint32_t offset = wr.opcode == WrOpcode::kRead ? cursor_packet_ * context_.attr.path_mtu : 0;
    packet.bth.opcode = context_.opcodes | opcode_of(wr.opcode, first, last);
    packet.bth.migrated = true;
    packet.bth.dest_qpn = context_.attr.dest_qpn;
    packet.bth.psn = psn_add(entry.first_psn, cursor_packet_);
    packet.bth.solicited = (wr.flags & kSolicited) != 0 && packet.info().ends();
    packet.xrc.srqn = wr.srqn;
    packet.reth = {.remote_addr = wr.remote_addr + offset,
                   .rkey = wr.rkey,
                   .len_bytes = wr.opcode == WrOpcode::kFlush ? wr.flush_bytes : entry.len_bytes - offset};
    packet.atomic = {.remote_addr = wr.remote_addr,
                     .rkey = wr.rkey,
                     .swap_or_add = wr.opcode == WrOpcode::kCompareSwap ? wr.swap : wr.compare_add,
                     .compare = wr.opcode == WrOpcode::kCompareSwap ? wr.compare_add : 0};
    packet.feth = {.selectivity = wr.flush_selectivity, .placement = wr.flush_placement};
    packet.imm.data = wr.imm_or_rkey;
    packet.ieth.rkey = wr.imm_or_rkey;
}

bool Requester::emit_payload(const SendEntry& entry, OutPacket& out) noexcept {
    if (entry.needs_response() && entry.wr.opcode != WrOpcode::kAtomicWrite) {
        return true;
    }
    const std::uint32_t offset = cursor_packet_ * context_.attr.path_mtu;
    const std::uint32_t len = std::min(context_.attr.path_mtu, entry.len_bytes - offset);
    return queue_.hand_out(entry, offset, len, out);
}

void Requester::moved_on(SendEntry& entry, std::uint32_t numbers, const Moment& now) noexcept {
    if (entry.needs_response() && !entry.in_flight) {
        entry.in_flight = true;
        ++rd_in_flight_;
    }
    cursor_packet_ += numbers;
    const std::uint32_t end = psn_add(entry.first_psn, cursor_packet_);
    if (psn_distance(end, sent_limit_) > 0) {
        sent_limit_ = end;
    } else {
        context_.count(&Counters::packets_again, &QpCounters::packets_again);
        SLUICE_PROBE(retransmit, context_.qpn, context_.attr.dest_qpn,
                     psn_add(entry.first_psn, cursor_packet_ - numbers), &context_.attr.remote);
    }
    if (cursor_packet_ == entry.packets) {
        ++cursor_;
        cursor_packet_ = 0;
    }
    await_answer(now);
}

void Requester::await_answer(const Moment& now) noexcept {
    if (ack_deadline_ == kNever && context_.attr.timeout != 0) {
        ack_deadline_ = now + pause();
        silent_since_ = std::min<Nanoseconds>(silent_since_, now);
        look_at_ = look_at_ == kNever ? now + kFirstLook : look_at_; // a repetition is no new silence
    }
}

} // namespace sluice::roce::engine
