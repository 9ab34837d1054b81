// SPDX-License-Identifier: BSD-3-Clause
//
// What arrives at the responder: order, checks, execution. What leaves is in responder_reply.cpp.
#include "roce/engine/responder.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace sluice::roce::engine {

using wire::Operation;
using wire::Packet;
using wire::psn_add;
using wire::psn_distance;

namespace {

// Bytes that an operation with an answer brings, and those that its answer has.
std::uint32_t brought_by(const Packet& packet) noexcept {
    return packet.info().operation == Operation::kAtomicWrite ? sizeof(std::uint64_t) : 0;
}
std::uint32_t taken_by(const Packet& packet) noexcept {
    switch (packet.info().operation) {
    case Operation::kReadRequest:
        return packet.reth.len_bytes;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
        return sizeof(std::uint64_t);
    default:
        return 0;
    }
}

} // namespace

void Responder::start() {
    expected_psn_ = context_.attr.recv_psn & wire::kPsnMask;
    msn_ = acknowledged_msn_ = 0;
    acknowledged_psn_ = psn_add(expected_psn_, wire::kPsnMask); // one back
    acknowledged_by_packet_.reset();
    silence_ = Silence::kNone;
    message_ = Message::kNone;
    receiving_ = false;
    // As many answers as a correct peer can wait for, twice because of copies, and room for
    // acknowledgements between them.
    replies_ = Ring<Reply>(context_.attr.max_dest_rd_atomic * 4U + 8);
    remembered_.assign(context_.attr.max_dest_rd_atomic, Remembered{});
    operations_ = answered_ = 0;
    lost_completion_ = false;
    failure_.reset();
}

bool Responder::on_request(const Packet& packet, bool not_ready, bool through_memory) noexcept {
    if (replies_.full()) {
        context_.count_drop(&Counters::dropped_no_room);
        return false;
    }
    const std::int32_t ahead = psn_distance(packet.bth.psn, expected_psn_);
    if (ahead < 0) {
        on_duplicate(packet);
        return false;
    }
    through_memory_ = through_memory;
    if (ahead > 0) {
        context_.count(&Counters::out_of_sequence, &QpCounters::out_of_sequence);
        if (silence_ == Silence::kNone) {
            silence_ = Silence::kToldOfGap;
            queue_nak(wire::nak_syndrome(wire::NakCode::kSequence));
        }
        return false;
    }
    silence_ = Silence::kNone;
    const Verdict verdict = not_ready ? Verdict::kNotReady : execute(packet);
    if (verdict != Verdict::kDone) {
        refuse(verdict);
    }
    return verdict == Verdict::kDone || verdict == Verdict::kNotReady;
}

// The order of the checks is the standard's (9.7.4.1): place, length and operation make an invalid
// request; only then do keys matter.
Responder::Verdict Responder::execute(const Packet& packet) noexcept {
    if (!place_fits(packet.info()) || !length_fits(packet) || !offers(packet)) {
        return Verdict::kInvalid;
    }
    if (!find_queue(packet)) {
        return Verdict::kNoQueue;
    }
    switch (packet.info().operation) {
    case Operation::kSend:
        return send(packet);
    case Operation::kWrite:
        return write(packet);
    case Operation::kReadRequest:
        return read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
        return atomic(packet);
    case Operation::kAtomicWrite:
        return atomic_write(packet);
    case Operation::kFlush:
        return flush_memory(packet);
    default:
        return Verdict::kInvalid;
    }
}

// All packets of a message name the same queue.
bool Responder::find_queue(const Packet& packet) noexcept {
    if (domain_ == nullptr) {
        return true;
    }
    if (!packet.info().starts() && packet.xrc.srqn != srqn_) {
        return false;
    }
    srqn_ = packet.xrc.srqn;
    target_ = domain_->find(srqn_);
    return target_ != nullptr;
}

bool Responder::place_fits(const wire::OpcodeInfo& info) const noexcept {
    if (info.starts()) {
        return message_ == Message::kNone;
    }
    return message_ == (info.operation == Operation::kSend ? Message::kSend : Message::kWrite);
}

bool Responder::length_fits(const Packet& packet) const noexcept {
    return fits_its_place(packet, context_.attr.path_mtu) &&
           (packet.info().operation != Operation::kAtomicWrite ||
            packet.payload.size() == sizeof(std::uint64_t));
}

// An operation that the queue pair wasn't set up for is an invalid request, not a key violation.
bool Responder::offers(const Packet& packet) const noexcept {
    const auto has = [this](std::uint32_t access) { return (context_.attr.access & access) == access; };
    switch (packet.info().operation) {
    case Operation::kWrite:
        return has(kRemoteWrite);
    case Operation::kReadRequest:
        return has(kRemoteRead) && !too_many();
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
        return has(kRemoteAtomic) && !too_many() && packet.atomic.remote_addr % sizeof(std::uint64_t) == 0;
    case Operation::kAtomicWrite:
        return has(kRemoteWrite) && !too_many() && packet.reth.remote_addr % sizeof(std::uint64_t) == 0 &&
               packet.reth.len_bytes == sizeof(std::uint64_t);
    case Operation::kFlush:
        return (context_.attr.access & (kFlushGlobal | kFlushPersistent)) != 0 && !too_many();
    default:
        return true;
    }
}

bool Responder::too_many() const noexcept {
    return operations_ - answered_ >= context_.attr.max_dest_rd_atomic;
}

bool Responder::take_receive() noexcept {
    if (target_->receives->empty()) {
        return false;
    }
    target_->receives->take(receive_);
    receiving_ = true;
    received_bytes_ = 0;
    if (target_->receives->take_limit_event()) {
        target_->reached_limit = true;
        context_.events.event(AsyncEvent::kSrqLimit, context_.qpn);
    }
    return true;
}

Responder::Verdict Responder::fail_receive(Status status, Verdict verdict) noexcept {
    receiving_ = false;
    complete({.wr_id = receive_.wr_id, .status = status, .opcode = WcOpcode::kRecv});
    return verdict;
}

void Responder::complete(Completion completion) noexcept {
    completion.src_qpn = domain_ != nullptr ? context_.attr.dest_qpn : 0;
    context_.complete(*target_->cq, completion);
    lost_completion_ = lost_completion_ || (domain_ != nullptr && target_->cq->overflowed());
}

void Responder::finish_receive(const Packet& packet, WcOpcode opcode, std::uint32_t len_bytes) noexcept {
    receiving_ = false;
    complete(completion_of(packet, receive_.wr_id, opcode, len_bytes));
}

Responder::Verdict Responder::send(const Packet& packet) noexcept {
    const wire::OpcodeInfo& info = packet.info();
    if (info.starts() && !take_receive()) {
        return Verdict::kNotReady;
    }
    if (packet.payload.size() > receive_.len_bytes - received_bytes_) {
        return fail_receive(Status::kLocalLength, Verdict::kInvalid);
    }
    if (!context_.scatter(target_->pd, {receive_.sges.data(), receive_.sge_count}, received_bytes_,
                          packet.payload)) {
        return fail_receive(Status::kLocalProtection, Verdict::kOperational);
    }
    received_bytes_ += static_cast<std::uint32_t>(packet.payload.size());
    if (info.has(wire::kHasIeth) &&
        !context_.regions.invalidate(packet.ieth.rkey, target_->pd, context_.qpn)) {
        return fail_receive(Status::kMwBind, Verdict::kAccess);
    }
    message_ = info.ends() ? Message::kNone : Message::kSend;
    expected_psn_ = psn_add(expected_psn_, 1);
    if (info.ends()) {
        msn_ = psn_add(msn_, 1);
        context_.count_received(received_bytes_);
        finish_receive(packet, WcOpcode::kRecv, received_bytes_);
    }
    acknowledged_psn_ = packet.bth.psn;
    acknowledged_msn_ = msn_;
    if (packet.bth.ack_request) {
        acknowledge();
    }
    return Verdict::kDone;
}

Responder::Verdict Responder::write(const Packet& packet) noexcept {
    const wire::OpcodeInfo& info = packet.info();
    const auto len = static_cast<std::uint32_t>(packet.payload.size());
    if (info.starts()) {
        write_rkey_ = packet.reth.rkey;
        write_addr_ = packet.reth.remote_addr;
        write_left_ = write_bytes_ = packet.reth.len_bytes;
    }
    // What was announced must come, not more and not less; 2^31 is the standard's limit.
    if (write_bytes_ > 0x80000000U || (info.ends() ? len != write_left_ : len >= write_left_)) {
        return Verdict::kInvalid;
    }
    if (info.has(wire::kHasImmDt) && target_->receives->empty()) {
        return Verdict::kNotReady;
    }
    // The whole range at first, so that a message which can't end well doesn't begin; then each part.
    const std::uint32_t asked = info.starts() ? write_bytes_ : len;
    if (asked != 0) {
        const auto host =
            context_.regions.remote(write_rkey_, target_->pd, context_.qpn, write_addr_, asked, kRemoteWrite);
        if (!host) {
            return Verdict::kAccess;
        }
        if (!context_.memory.copy_in(*host, packet.payload.data(), len)) {
            return Verdict::kOperational;
        }
    }
    write_addr_ += len;
    write_left_ -= len;
    message_ = info.ends() ? Message::kNone : Message::kWrite;
    expected_psn_ = psn_add(expected_psn_, 1);
    if (info.ends()) {
        msn_ = psn_add(msn_, 1);
        context_.count_received(write_bytes_);
        if (info.has(wire::kHasImmDt) && take_receive()) {
            finish_receive(packet, WcOpcode::kRecvWriteImm, write_bytes_);
        }
    }
    acknowledged_psn_ = packet.bth.psn;
    acknowledged_msn_ = msn_;
    if (packet.bth.ack_request) {
        acknowledge();
    }
    return Verdict::kDone;
}

Responder::Verdict Responder::read(const Packet& packet) noexcept {
    const wire::Reth& reth = packet.reth;
    if (reth.len_bytes > 0x80000000U) {
        return Verdict::kInvalid;
    }
    if (reth.len_bytes != 0 && !context_.regions.remote(reth.rkey, target_->pd, context_.qpn,
                                                        reth.remote_addr, reth.len_bytes, kRemoteRead)) {
        return Verdict::kAccess;
    }
    remember(packet, packet_count(reth.len_bytes, context_.attr.path_mtu), 0);
    Reply& reply = queue(Answer::kRead, packet.bth.psn, msn_);
    reply.pd = target_->pd;
    reply.rkey = reth.rkey;
    reply.addr = reth.remote_addr;
    reply.len_bytes = reth.len_bytes;
    return Verdict::kDone;
}

Responder::Verdict Responder::atomic(const Packet& packet) noexcept {
    const wire::AtomicEth& eth = packet.atomic;
    const auto host = context_.regions.remote(eth.rkey, target_->pd, context_.qpn, eth.remote_addr,
                                              sizeof(std::uint64_t), kRemoteAtomic);
    if (!host) {
        return Verdict::kAccess;
    }
    std::uint64_t original = 0;
    const bool done = packet.info().operation == Operation::kFetchAdd
                          ? context_.memory.fetch_add(*host, eth.swap_or_add, original)
                          : context_.memory.compare_swap(*host, eth.compare, eth.swap_or_add, original);
    if (!done) {
        return Verdict::kOperational;
    }
    remember(packet, 1, original);
    queue(Answer::kAtomic, packet.bth.psn, msn_).value = original;
    return Verdict::kDone;
}

Responder::Verdict Responder::atomic_write(const Packet& packet) noexcept {
    const auto host = context_.regions.remote(packet.reth.rkey, target_->pd, context_.qpn,
                                              packet.reth.remote_addr, sizeof(std::uint64_t), kRemoteWrite);
    if (!host) {
        return Verdict::kAccess;
    }
    // Eight bytes of the program's memory: their order isn't ours to change.
    std::uint64_t value = 0;
    std::memcpy(&value, packet.payload.data(), sizeof value);
    if (!context_.memory.store(*host, value)) {
        return Verdict::kOperational;
    }
    remember(packet, 1, 0);
    queue(Answer::kEmptyRead, packet.bth.psn, msn_);
    return Verdict::kDone;
}

Responder::Verdict Responder::flush_memory(const Packet& packet) noexcept {
    const wire::Feth& feth = packet.feth;
    const std::uint32_t access = ((feth.placement & wire::Feth::kGlobalVisibility) != 0 ? kFlushGlobal : 0U) |
                                 ((feth.placement & wire::Feth::kPersistence) != 0 ? kFlushPersistent : 0U);
    if (access == 0 || (access & context_.attr.access) != access ||
        feth.selectivity > wire::Feth::kWholeRegion) {
        return Verdict::kInvalid;
    }
    auto extent = context_.regions.whole(packet.reth.rkey, target_->pd, context_.qpn, access);
    if (extent && feth.selectivity == wire::Feth::kRange) {
        const auto host = context_.regions.remote(packet.reth.rkey, target_->pd, context_.qpn,
                                                  packet.reth.remote_addr, packet.reth.len_bytes, access);
        extent.reset();
        if (host) {
            extent = {.host_addr = *host, .len_bytes = packet.reth.len_bytes};
        }
    }
    if (!extent) {
        return Verdict::kAccess;
    }
    if (!context_.memory.flush(extent->host_addr, extent->len_bytes, feth.placement)) {
        return Verdict::kOperational;
    }
    remember(packet, 1, 0);
    queue(Answer::kEmptyRead, packet.bth.psn, msn_);
    return Verdict::kDone;
}

// Takes the request's numbers, too: what is remembered has been executed.
void Responder::remember(const Packet& packet, std::uint32_t packets, std::uint64_t value) noexcept {
    msn_ = psn_add(msn_, 1);
    context_.count_received(brought_by(packet), taken_by(packet));
    expected_psn_ = psn_add(expected_psn_, packets);
    remembered_[operations_++ % remembered_.size()] = {.operation = packet.info().operation,
                                                       .psn = packet.bth.psn,
                                                       .packets = packets,
                                                       .msn = msn_,
                                                       .pd = target_->pd,
                                                       .rkey = packet.reth.rkey,
                                                       .len_bytes = packet.reth.len_bytes,
                                                       .addr = packet.reth.remote_addr,
                                                       .value = value};
}

// Youngest first: an old one may have the same number, from before the numbers went round.
const Responder::Remembered* Responder::recall(const Packet& packet) const noexcept {
    const std::uint64_t count = std::min<std::uint64_t>(operations_, remembered_.size());
    for (std::uint64_t back = 1; back <= count; ++back) {
        const Remembered& one = remembered_[(operations_ - back) % remembered_.size()];
        const std::int32_t index = psn_distance(packet.bth.psn, one.psn);
        if (one.operation == packet.info().operation && index >= 0 &&
            index < static_cast<std::int32_t>(one.packets)) {
            return &one;
        }
    }
    return nullptr;
}

// 9.7.5.1: a copy never executes anything but a read, and that only within what was asked before.
void Responder::on_duplicate(const Packet& packet) noexcept {
    context_.count(&Counters::duplicates, &QpCounters::duplicates);
    const Operation operation = packet.info().operation;
    if (operation == Operation::kSend || operation == Operation::kWrite) {
        if (packet.bth.ack_request) {
            acknowledge();
        }
        return;
    }
    const Remembered* known = recall(packet);
    if (known == nullptr) {
        return;
    }
    if (operation == Operation::kReadRequest) {
        const std::uint64_t skipped = packet.reth.remote_addr - known->addr;
        const auto index = static_cast<std::uint64_t>(psn_distance(packet.bth.psn, known->psn));
        if (packet.reth.rkey != known->rkey || skipped != index * context_.attr.path_mtu ||
            skipped + packet.reth.len_bytes > known->len_bytes) {
            return;
        }
        Reply& reply = queue(Answer::kRead, packet.bth.psn, known->msn);
        reply.again = true;
        reply.pd = known->pd;
        reply.rkey = known->rkey;
        reply.addr = packet.reth.remote_addr;
        reply.len_bytes = packet.reth.len_bytes;
        return;
    }
    const bool is_atomic = operation == Operation::kCompareSwap || operation == Operation::kFetchAdd;
    Reply& reply = queue(is_atomic ? Answer::kAtomic : Answer::kEmptyRead, packet.bth.psn, known->msn);
    reply.again = true;
    reply.value = known->value;
}

void Responder::flush() noexcept {
    if (domain_ != nullptr) {
        target_ = domain_->find(srqn_); // it may have gone since
    }
    if (std::exchange(receiving_, false) && target_ != nullptr) {
        fail_receive(Status::kFlushed, Verdict::kDone);
    }
}

} // namespace sluice::roce::engine
