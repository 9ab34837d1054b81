// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/datagram.hpp"

#include "roce/wire/mad.hpp"

namespace sluice::roce::engine {
namespace {

// 10.2: a Q_Key with its top bit set is privileged; in a work request it means the queue pair's.
constexpr std::uint32_t kOwnQkey = 0x80000000;

} // namespace

bool Datagram::transmit(OutPacket& out) noexcept {
    const std::uint32_t next = sends_.head() + given_out_;
    if (next == sends_.tail() || failed_) {
        return false;
    }
    const SendEntry& entry = sends_.at(next);
    const SendWr& wr = entry.wr;
    wire::Packet& packet = out.begin();
    if (entry.len_bytes > context_.attr.path_mtu) {
        return fail(Status::kLocalLength);
    }
    if (!sends_.hand_out(entry, 0, entry.len_bytes, out)) {
        return fail(Status::kLocalProtection);
    }
    packet.bth.opcode = wr.opcode == WrOpcode::kSendImm ? wire::kUdSendOnlyImm : wire::kUdSendOnly;
    packet.bth.migrated = true;
    packet.bth.solicited = (wr.flags & kSolicited) != 0;
    packet.bth.dest_qpn = wr.dest_qpn & wire::kQpnMask;
    packet.bth.psn = next_psn_;
    packet.deth = {.qkey = (wr.qkey & kOwnQkey) != 0 ? context_.attr.qkey : wr.qkey, .src_qpn = context_.qpn};
    packet.imm.data = wr.imm_or_rkey;
    out.finish();
    out.through_memory =
        packet.bth.dest_qpn > wire::kGsiQpn; // management datagrams are for several processes
    out.source = wr.source == Address{} ? context_.attr.local : wr.source;
    out.destination = wr.destination;
    next_psn_ = wire::psn_add(next_psn_, 1);
    ++given_out_;
    return true;
}

// Completions keep their order: what was given out before comes first, and then this is called again.
bool Datagram::fail(Status status) noexcept {
    if (given_out_ == 0) {
        sends_.flush(status);
        failed_ = true;
    }
    return false;
}

void Datagram::settle() noexcept {
    for (; given_out_ != 0; --given_out_) {
        sends_.retire(Status::kSuccess);
    }
}

namespace {

// An IPv4 header stands in the second half, behind zeros.
std::uint8_t flags_of(const wire::Grh& grh) noexcept {
    constexpr unsigned kIpv6 = 6;
    return grh[0] >> 4U == kIpv6 ? kWithGrh | kWithGrhOfIpv6 : kWithGrh;
}

} // namespace

void Datagram::on_packet(const wire::Packet& packet, const wire::Grh& grh) noexcept {
    if (packet.deth.qkey != context_.attr.qkey) {
        context_.count_drop(&Counters::dropped_wrong_peer);
        return;
    }
    const std::size_t len = grh.size() + packet.payload.size();
    if (packet.payload.size() > context_.attr.path_mtu || receives_.empty() ||
        receives_.next_len_bytes() < len) {
        context_.count_drop(&Counters::dropped_no_room);
        return;
    }
    receives_.take(receive_);
    if (receives_.take_limit_event()) {
        context_.events.event(AsyncEvent::kSrqLimit, context_.qpn);
    }
    const std::span<const Sge> sges(receive_.sges.data(), receive_.sge_count);
    const bool stored = context_.scatter(sges, 0, grh) && context_.scatter(sges, grh.size(), packet.payload);
    Completion completion =
        completion_of(packet, receive_.wr_id, WcOpcode::kRecv, static_cast<std::uint32_t>(len));
    completion.status = stored ? Status::kSuccess : Status::kLocalProtection;
    if (stored) {
        context_.count_received(static_cast<std::uint32_t>(packet.payload.size()));
    }
    completion.flags |= flags_of(grh);
    completion.src_qpn = packet.deth.src_qpn;
    context_.complete(context_.recv_cq, completion);
}

} // namespace sluice::roce::engine
