// SPDX-License-Identifier: BSD-3-Clause
//
// What leaves the responder: acknowledgements, refusals, and the responses of reads and atomics.
#include "roce/engine/responder.hpp"

#include <utility>

namespace sluice::roce::engine {

using wire::NakCode;
using wire::Packet;
using wire::psn_add;

Responder::Reply& Responder::queue(Answer answer, std::uint32_t psn, std::uint32_t msn) noexcept {
    Reply& reply = replies_.grow();
    reply = {.answer = answer, .syndrome = wire::kAckNoCredits, .psn = psn, .msn = msn};
    return reply;
}

// Acknowledges the sends and writes executed so far. One that waits already just says more. It never names
// a read or an atomic, though that may be what was executed last: the response alone answers those,
// and a requester that takes the acknowledgement of a copy for it, as rxe does, would complete the
// request without its data.
void Responder::acknowledge() noexcept {
    if (!replies_.empty() && replies_.back().answer == Answer::kAck) {
        replies_.back().psn = acknowledged_psn_;
        replies_.back().msn = acknowledged_msn_;
        return;
    }
    queue(Answer::kAck, acknowledged_psn_, acknowledged_msn_);
}

// A NAK names the number that it refuses and acknowledges what is before, so that it can take the
// place of an acknowledgement that waits.
void Responder::queue_nak(std::uint8_t syndrome) noexcept {
    Reply& reply = !replies_.empty() && replies_.back().answer == Answer::kAck ? replies_.back()
                                                                               : queue(Answer::kNak, 0, 0);
    reply.answer = Answer::kNak;
    reply.syndrome = syndrome;
    reply.psn = expected_psn_;
    reply.msn = msn_;
}

void Responder::refuse(Verdict verdict) noexcept {
    switch (verdict) {
    case Verdict::kDone:
        return;
    case Verdict::kNotReady:
        silence_ = Silence::kToldNotReady;
        context_.count(&Counters::rnr_naks_out, &QpCounters::rnr_naks_out);
        queue_nak(wire::rnr_syndrome(context_.attr.min_rnr_timer));
        return;
    case Verdict::kInvalid:
        queue_nak(wire::nak_syndrome(NakCode::kInvalidRequest));
        failure_ = AsyncEvent::kQpRequestError;
        return;
    case Verdict::kNoQueue: // A14; the event is that of Linux' drivers
        queue_nak(wire::nak_syndrome(NakCode::kInvalidRequest));
        failure_ = AsyncEvent::kQpAccessError;
        return;
    case Verdict::kAccess:
        queue_nak(wire::nak_syndrome(NakCode::kRemoteAccess));
        failure_ = AsyncEvent::kQpAccessError;
        return;
    case Verdict::kOperational:
        queue_nak(wire::nak_syndrome(NakCode::kRemoteOperational));
        failure_ = AsyncEvent::kQpFatal;
        return;
    }
}

void Responder::emit(std::uint8_t opcode, const Reply& reply, OutPacket& out) noexcept {
    Packet& packet = out.packet;
    packet.bth.opcode = context_.opcodes | opcode;
    packet.bth.migrated = true;
    packet.bth.dest_qpn = context_.attr.dest_qpn;
    packet.bth.psn = reply.psn;
    packet.aeth = {.syndrome = reply.syndrome, .msn = reply.msn};
    packet.atomic_ack.original = reply.value;
    out.finish();
    out.through_memory = through_memory_;
    out.source = context_.attr.local;
    out.destination = context_.attr.remote;
}

// Of an answer in one packet. A read that can't be answered any more has become a refusal.
std::uint8_t Responder::opcode_of(Answer answer) noexcept {
    switch (answer) {
    case Answer::kAck:
    case Answer::kNak:
    case Answer::kRead:
        return wire::kRcAcknowledge;
    case Answer::kAtomic:
        return wire::kRcAtomicAcknowledge;
    case Answer::kEmptyRead:
        return wire::kRcReadResponseOnly;
    }
    return wire::kRcAcknowledge;
}

std::optional<std::uint32_t> Responder::take_acknowledgement() noexcept {
    std::optional<std::uint32_t> psn = std::exchange(acknowledged_by_packet_, std::nullopt);
    if (acknowledges_next()) {
        psn = replies_.front().psn;
        replies_.pop_front();
    }
    return psn;
}

bool Responder::transmit(OutPacket& out) noexcept {
    if (replies_.empty()) {
        return false;
    }
    Reply& reply = replies_.front();
    (void)out.begin();
    if (reply.answer == Answer::kRead && emit_read(reply, out)) {
        return true;
    }
    emit(opcode_of(reply.answer), reply, out);
    if (reply.answer == Answer::kAck && !through_memory_) {
        acknowledged_by_packet_ = reply.psn;
    }
    const bool is_operation = reply.answer == Answer::kAtomic || reply.answer == Answer::kEmptyRead;
    answered_ += is_operation && !reply.again ? 1 : 0;
    replies_.pop_front();
    return true;
}

// One packet of a read response. False: the memory isn't there any more, and REPLY has become a
// refusal of the packet that can't be made; nothing after it counts.
bool Responder::emit_read(Reply& reply, OutPacket& out) noexcept {
    const std::uint32_t len = std::min(context_.attr.path_mtu, reply.len_bytes);
    if (len != 0) {
        const auto host =
            context_.regions.remote(reply.rkey, reply.pd, context_.qpn, reply.addr, len, kRemoteRead);
        if (!host || !context_.memory.readable(*host, len)) {
            fail_read(reply, host ? NakCode::kRemoteOperational : NakCode::kRemoteAccess);
            return false;
        }
        out.add_piece(*host, len);
    }
    const bool last = len == reply.len_bytes;
    const std::uint8_t begins = last ? wire::kRcReadResponseOnly : wire::kRcReadResponseFirst;
    const std::uint8_t goes_on = last ? wire::kRcReadResponseLast : wire::kRcReadResponseMiddle;
    emit(reply.began ? goes_on : begins, reply, out);
    reply.began = true;
    reply.psn = psn_add(reply.psn, 1);
    reply.addr += len;
    reply.len_bytes -= len;
    if (last) {
        answered_ += reply.again ? 0 : 1;
        replies_.pop_front();
    }
    return true;
}

void Responder::fail_read(Reply& reply, NakCode code) noexcept {
    Reply nak = reply;
    nak.answer = Answer::kNak;
    nak.syndrome = wire::nak_syndrome(code);
    replies_.clear();
    replies_.grow() = nak;
    failure_ = code == NakCode::kRemoteAccess ? AsyncEvent::kQpAccessError : AsyncEvent::kQpFatal;
}

} // namespace sluice::roce::engine
