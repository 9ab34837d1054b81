// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/unreliable_connection.hpp"

namespace sluice::roce::engine {

using wire::Operation;
using wire::Packet;
using wire::psn_add;

namespace {

std::uint8_t opcode_of_packet(WrOpcode opcode, bool first, bool last) noexcept {
    const bool is_write = opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm;
    const bool with_imm = opcode == WrOpcode::kSendImm || opcode == WrOpcode::kWriteImm;
    if (!last) {
        return is_write ? (first ? wire::kUcWriteFirst : wire::kUcWriteMiddle)
                        : (first ? wire::kUcSendFirst : wire::kUcSendMiddle);
    }
    if (with_imm) {
        return is_write ? (first ? wire::kUcWriteOnlyImm : wire::kUcWriteLastImm)
                        : (first ? wire::kUcSendOnlyImm : wire::kUcSendLastImm);
    }
    return is_write ? (first ? wire::kUcWriteOnly : wire::kUcWriteLast)
                    : (first ? wire::kUcSendOnly : wire::kUcSendLast);
}

} // namespace

// --- Sending ---

void UnreliableConnection::start_sending() noexcept {
    next_psn_ = context_.attr.send_psn & wire::kPsnMask;
    failed_ = began_ = gives_up_room_ = false;
    stop_sending();
}

// Once: packets on another way would overtake those before, and their messages would be lost.
void UnreliableConnection::choose_way() noexcept {
    if (!began_) {
        through_memory_ = context_.goes_through_memory();
        began_ = true;
    }
}

bool UnreliableConnection::has_room(const Moment& now) noexcept {
    if (!through_memory_ || !context_.is_full()) {
        no_room_until_ = kNever;
        gives_up_room_ = false;
        return true;
    }
    if (!gives_up_room_ && no_room_until_ == kNever) {
        no_room_until_ = now + kPatience;
    }
    return gives_up_room_;
}

void UnreliableConnection::on_deadline(Nanoseconds now) noexcept {
    if (no_room_until_ <= now) {
        no_room_until_ = kNever;
        gives_up_room_ = true;
    }
}

bool UnreliableConnection::transmit(OutPacket& out, bool may_begin, const Moment& now) noexcept {
    while (!failed_ && burst_ < kBurstPackets && (may_begin || packet_ != 0)) {
        const std::uint32_t next = sends_.head() + given_out_;
        if (next == sends_.tail()) {
            return false;
        }
        const SendEntry& entry = sends_.at(next);
        if (entry.is_local()) {
            if (!run_local(entry)) {
                return false;
            }
            continue;
        }
        choose_way();
        if (!has_room(now)) {
            return false;
        }
        const std::uint32_t offset = packet_ * context_.attr.path_mtu;
        const std::uint32_t len = std::min(context_.attr.path_mtu, entry.len_bytes - offset);
        Packet& packet = out.begin();
        if (!sends_.hand_out(entry, offset, len, out)) {
            return fail(Status::kLocalProtection);
        }
        emit(entry, packet);
        out.finish();
        out.through_memory = through_memory_ && !gives_up_room_;
        out.source = context_.attr.local;
        out.destination = context_.attr.remote;
        next_psn_ = psn_add(next_psn_, 1);
        ++burst_;
        ++packet_;
        if (offset + len == entry.len_bytes) {
            packet_ = 0;
            ++given_out_;
        }
        return true;
    }
    return false;
}

// At once, and complete in its turn: after the requests before it, which settle() ends.
bool UnreliableConnection::run_local(const SendEntry& entry) noexcept {
    if (!context_.run_local(entry.wr)) {
        return fail(Status::kMwBind);
    }
    if (given_out_ == 0) {
        sends_.retire(Status::kSuccess);
    } else {
        ++given_out_;
    }
    return true;
}

void UnreliableConnection::emit(const SendEntry& entry, Packet& packet) const noexcept {
    const SendWr& wr = entry.wr;
    const bool last = packet_ + 1 == packet_count(entry.len_bytes, context_.attr.path_mtu);
    packet.bth.opcode = opcode_of_packet(wr.opcode, packet_ == 0, last);
    packet.bth.migrated = true;
    packet.bth.dest_qpn = context_.attr.dest_qpn;
    packet.bth.psn = next_psn_;
    packet.bth.solicited = last && (wr.flags & kSolicited) != 0;
    packet.reth = {.remote_addr = wr.remote_addr, .rkey = wr.rkey, .len_bytes = entry.len_bytes};
    packet.imm.data = wr.imm_or_rkey;
}

// Completions keep their order: what was given out before comes first, and then this is called again.
bool UnreliableConnection::fail(Status status) noexcept {
    if (given_out_ == 0) {
        sends_.flush(status);
        stop_sending();
        failed_ = true;
    }
    return false;
}

void UnreliableConnection::settle() noexcept {
    burst_ = 0;
    for (; given_out_ != 0; --given_out_) {
        sends_.retire(Status::kSuccess);
    }
}

// --- Receiving ---

void UnreliableConnection::start_receiving() noexcept {
    expected_psn_ = context_.attr.recv_psn & wire::kPsnMask;
    stop_receiving();
}

void UnreliableConnection::stop_receiving() noexcept {
    message_ = Message::kNone;
    receiving_ = false;
    failure_.reset();
}

bool UnreliableConnection::on_packet(const Packet& packet) noexcept {
    const bool in_order = packet.bth.psn == expected_psn_;
    if (!in_order) {
        context_.count(&Counters::out_of_sequence, &QpCounters::out_of_sequence);
    }
    expected_psn_ = psn_add(packet.bth.psn, 1);
    if (!in_order || !continues(packet.info())) {
        if (message_ != Message::kNone) {
            context_.count_drop(&Counters::dropped_messages);
        }
        message_ = Message::kNone;
        if (!packet.info().starts()) {
            return false;
        }
    }
    if (take(packet)) {
        return true;
    }
    context_.count_drop(&Counters::dropped_messages);
    message_ = Message::kNone;
    return false;
}

bool UnreliableConnection::continues(const wire::OpcodeInfo& info) const noexcept {
    return !info.starts() &&
           message_ == (info.operation == Operation::kSend ? Message::kSend : Message::kWrite) &&
           message_ != Message::kNone;
}

bool UnreliableConnection::take(const Packet& packet) noexcept {
    if (!fits_its_place(packet, context_.attr.path_mtu)) {
        return false;
    }
    return packet.info().operation == Operation::kSend ? send(packet) : write(packet);
}

// A receive that waits since a message broke off comes before the queue's.
bool UnreliableConnection::take_receive() noexcept {
    if (receiving_) {
        return true;
    }
    if (receives_.empty()) {
        context_.count_drop(&Counters::dropped_no_room);
        return false;
    }
    receives_.take(receive_);
    receiving_ = true;
    if (receives_.take_limit_event()) {
        context_.events.event(AsyncEvent::kSrqLimit, context_.qpn);
    }
    return true;
}

void UnreliableConnection::finish_receive(const Packet& packet, WcOpcode opcode,
                                          std::uint32_t len_bytes) noexcept {
    receiving_ = false;
    context_.complete(context_.recv_cq, completion_of(packet, receive_.wr_id, opcode, len_bytes));
}

bool UnreliableConnection::send(const Packet& packet) noexcept {
    const wire::OpcodeInfo& info = packet.info();
    if (info.starts()) {
        if (!take_receive()) {
            return false;
        }
        received_bytes_ = 0;
    }
    if (packet.payload.size() > receive_.len_bytes - received_bytes_) {
        return false;
    }
    if (!context_.scatter({receive_.sges.data(), receive_.sge_count}, received_bytes_, packet.payload)) {
        receiving_ = false;
        context_.complete(
            context_.recv_cq,
            {.wr_id = receive_.wr_id, .status = Status::kLocalProtection, .opcode = WcOpcode::kRecv});
        failure_ = AsyncEvent::kQpFatal;
        return false;
    }
    received_bytes_ += static_cast<std::uint32_t>(packet.payload.size());
    message_ = info.ends() ? Message::kNone : Message::kSend;
    if (info.ends()) {
        context_.count_received(received_bytes_);
        finish_receive(packet, WcOpcode::kRecv, received_bytes_);
    }
    return true;
}

bool UnreliableConnection::write(const Packet& packet) noexcept {
    const wire::OpcodeInfo& info = packet.info();
    const auto len = static_cast<std::uint32_t>(packet.payload.size());
    if (info.starts()) {
        write_rkey_ = packet.reth.rkey;
        write_addr_ = packet.reth.remote_addr;
        write_left_ = write_bytes_ = packet.reth.len_bytes;
    }
    // What was announced must come, not more and not less; 2^31 is the standard's limit.
    if ((context_.attr.access & kRemoteWrite) == 0 || write_bytes_ > 0x80000000U ||
        (info.ends() ? len != write_left_ : len >= write_left_) ||
        (info.has(wire::kHasImmDt) && !take_receive())) {
        return false;
    }
    // The whole range at first, so that a message which can't end well doesn't begin; then each part.
    const std::uint32_t asked = info.starts() ? write_bytes_ : len;
    if (asked != 0) {
        const auto host =
            context_.regions.remote(write_rkey_, context_.pd, context_.qpn, write_addr_, asked, kRemoteWrite);
        if (!host || !context_.memory.copy_in(*host, packet.payload.data(), len)) {
            return false;
        }
    }
    write_addr_ += len;
    write_left_ -= len;
    message_ = info.ends() ? Message::kNone : Message::kWrite;
    if (info.ends()) {
        context_.count_received(write_bytes_);
    }
    if (info.has(wire::kHasImmDt)) {
        finish_receive(packet, WcOpcode::kRecvWriteImm, write_bytes_);
    }
    return true;
}

void UnreliableConnection::flush() noexcept {
    if (receiving_) {
        receiving_ = false;
        context_.complete(context_.recv_cq,
                          {.wr_id = receive_.wr_id, .status = Status::kFlushed, .opcode = WcOpcode::kRecv});
    }
}

} // namespace sluice::roce::engine
