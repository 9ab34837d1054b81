// SPDX-License-Identifier: BSD-3-Clause
//
// What leaves the responder: acknowledgements, refusals, and the responses of reads and atomics.
#include "provider/uroce/engine/responder.hpp"

namespace sluice::uroce {

using wire::NakCode;
using wire::Packet;
using wire::psn_add;

Responder::Reply& Responder::queue(Answer answer, std::uint32_t psn, std::uint32_t msn) noexcept {
    Reply& reply = replies_.grow();
    reply = {.answer = answer, .syndrome = wire::kAckNoCredits, .psn = psn, .msn = msn};
    return reply;
}

// Acknowledges everything executed so far. One that waits already just says more.
void Responder::acknowledge() noexcept {
    const std::uint32_t last = psn_add(expected_psn_, wire::kPsnMask); // one back
    if (!replies_.empty() && replies_.back().answer == Answer::kAck) {
        replies_.back().psn = last;
        replies_.back().msn = msn_;
        return;
    }
    queue(Answer::kAck, last, msn_);
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
        queue_nak(wire::rnr_syndrome(context_.attr.min_rnr_timer));
        return;
    case Verdict::kInvalid:
        queue_nak(wire::nak_syndrome(NakCode::kInvalidRequest));
        failure_ = AsyncEvent::kQpRequestError;
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

void Responder::emit(Packet& packet, const Reply& reply, OutPacket& out) noexcept {
    packet.bth.migrated = true;
    packet.bth.dest_qpn = context_.attr.dest_qpn;
    packet.bth.psn = reply.psn;
    packet.aeth = {.syndrome = reply.syndrome, .msn = reply.msn};
    packet.atomic_ack.original = reply.value;
    out.finish(packet);
    out.source = context_.attr.local;
    out.destination = context_.attr.remote;
}

bool Responder::transmit(OutPacket& out) noexcept {
    if (replies_.empty()) {
        return false;
    }
    Reply& reply = replies_.front();
    out.begin();
    if (reply.answer == Answer::kRead && emit_read(reply, out)) {
        return true;
    }
    Packet packet;
    switch (reply.answer) {
    case Answer::kAck:
    case Answer::kNak:
    case Answer::kRead:
        packet.bth.opcode = wire::kRcAcknowledge;
        break;
    case Answer::kAtomic:
        packet.bth.opcode = wire::kRcAtomicAcknowledge;
        break;
    case Answer::kEmptyRead:
        packet.bth.opcode = wire::kRcReadResponseOnly;
        break;
    }
    emit(packet, reply, out);
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
            context_.regions.remote(reply.rkey, context_.pd, context_.qpn, reply.addr, len, kRemoteRead);
        if (!host || !context_.memory.readable(*host, len)) {
            fail_read(reply, host ? NakCode::kRemoteOperational : NakCode::kRemoteAccess);
            return false;
        }
        out.add_piece(*host, len);
    }
    const bool last = len == reply.len_bytes;
    Packet packet;
    if (reply.began) {
        packet.bth.opcode = last ? wire::kRcReadResponseLast : wire::kRcReadResponseMiddle;
    } else {
        packet.bth.opcode = last ? wire::kRcReadResponseOnly : wire::kRcReadResponseFirst;
    }
    emit(packet, reply, out);
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

} // namespace sluice::uroce
