// SPDX-License-Identifier: BSD-3-Clause
//
// Packets on their way from and to the engine: which path each takes, and what of each arrives.
#include "provider/uroce/device/device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "provider/uroce/device/pump.hpp"
#include "roce/wire/icrc.hpp"
#include "roce/wire/mad.hpp"

namespace sluice::uroce::device {

namespace {

// Without the padding.
std::uint32_t payload_bytes(const engine::OutPacket& out) noexcept {
    return out.payload_bytes - out.packet.bth.pad;
}

// What a received datagram begins with, as if an IP header had carried it.
wire::Grh grh_of(const wire::Packet& packet, const engine::Address& source,
                 const engine::Address& destination) noexcept {
    if (packet.info().transport != wire::Transport::kUd) {
        return {};
    }
    const std::size_t behind_ip = wire::UdpHeader::kBytes + packet.info().header_bytes +
                                  packet.payload.size() + packet.bth.pad + wire::kIcrcBytes;
    if (!engine::is_ipv4(source)) {
        wire::Ipv6Header ip;
        ip.payload_bytes = static_cast<std::uint16_t>(behind_ip);
        ip.source = source.gid;
        ip.destination = destination.gid;
        return wire::make_grh(ip);
    }
    wire::Ipv4Header ip;
    ip.total_bytes = static_cast<std::uint16_t>(wire::Ipv4Header::kBytes + behind_ip);
    std::copy_n(source.gid.begin() + 12, ip.source.size(), ip.source.begin());
    std::copy_n(destination.gid.begin() + 12, ip.destination.size(), ip.destination.begin());
    return wire::make_grh(ip);
}

} // namespace

// out_ goes to where it is addressed to, if nobody has ordered something else.
void Device::dispatch(Pump& pump) noexcept {
    DeviceFaults* const faults = instrumentation_.faults.get();
    if (faults == nullptr) {
        deliver(pump, false);
        return;
    }
    const socket::SendVerdict verdict = faults->schedule().on_send({out_.header.data(), out_.header_bytes});
    const std::uint32_t qpn = out_.source_qpn;
    const engine::Nanoseconds due = pump.now() + verdict.delay;
    if (verdict.duplicate && !verdict.drop) {
        (void)faults->delayed().hold(out_, memory_, due);
    }
    if (!verdict.drop && !verdict.flip_icrc && verdict.delay != 0) {
        (void)faults->delayed().hold(out_, memory_, due);
    } else if (!verdict.drop) {
        deliver(pump, verdict.flip_icrc);
    }
    if (verdict.kill_qp) {
        end_queue_pair(qpn);
    }
}

// A checksum is only there on a wire. What would have been refused for it doesn't arrive.
void Device::deliver(Pump& pump, bool damaged) noexcept {
    Neighbour* const to = find_here(pump);
    if (to != nullptr && damaged) {
        ++counters_.deliveries.damaged;
    } else if (to != nullptr) {
        deliver_here(*to, pump);
    } else if (send_through_memory()) {
        counters_.memory.sent(payload_bytes(out_));
    } else if (link_ != nullptr && link_->append(out_, damaged)) {
        counters_.udp.sent(payload_bytes(out_));
        batch_open_ = true;
    } else {
        ++counters_.deliveries.no_route;
    }
}

// An acknowledgement that goes with a packet goes through memory only.
bool Device::send_through_memory() noexcept {
    if (!out_.through_memory || same_host_ == nullptr) {
        return false;
    }
    const bool sent = same_host_->send(out_);
    if (!sent && out_.acknowledged_psn) {
        engine_.acknowledge_again(out_.source_qpn);
    }
    return sent;
}

// This device or a neighbour, if out_ is for one of them.
Neighbour* Device::find_here(Pump& pump) noexcept {
    Neighbour* to = out_.destination == where_.gid ? this : pump.find(out_.destination);
    if (to == nullptr) {
        to = neighbours_.find(out_.destination);
    }
    return to != nullptr && to->takes_from(*this) ? to : nullptr;
}

bool Device::takes_from(Device& from) noexcept {
    const wire::Packet& packet = from.out_.packet;
    if (packet.bth.dest_qpn > wire::kGsiQpn || link_ == nullptr) {
        return share_.owns(packet.bth.dest_qpn);
    }
    wire::Packet whole = packet;
    return from.payload_of(from.out_, whole.payload) && link_->owns(whole, from.out_.destination);
}

void Device::deliver_here(Neighbour& to, Pump& pump) noexcept {
    if (instrumentation_.recorder != nullptr) {
        instrumentation_.recorder->record(out_, memory_);
    }
    counters_.loop.sent(payload_bytes(out_));
    if (&to == this) {
        take_in(out_, pump.now());
    } else if (Device* const held = pump.find(to)) {
        pump.go_on();
        held->take_in(out_, pump.now());
    } else {
        give_to_neighbour(to, pump);
    }
}

void Device::give_to_neighbour(Neighbour& to, Pump& pump) noexcept {
    switch (to.take_from(*this, pump)) {
    case Taken::kNow:
        break;
    case Taken::kLater:
        ++counters_.deliveries.posted;
        break;
    case Taken::kLost:
        ++counters_.deliveries.lost;
        break;
    }
}

// FROM is a device that the calling thread holds, and this one isn't yet.
Neighbour::Taken Device::take_from(Device& from, Pump& pump) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (lock_.try_lock()) {
        pump.add(*this);
        take_in(from.out_, pump.now());
        return Taken::kNow;
    }
    wire::ConstBytes payload;
    const bool copied = from.payload_of(from.out_, payload) && inbox_.put(from.out_, payload);
    if (lock_.leave_note()) {
        pump.add(*this); // given back meanwhile: then this thread reads the inbox
    }
    return copied ? Taken::kLater : Taken::kLost;
}

void Device::take_in(engine::OutPacket& out, const engine::Moment& now) noexcept {
    if (!payload_of(out, out.packet.payload)) {
        return; // its memory is gone since the engine looked: the packet is lost
    }
    const wire::Grh grh = grh_of(out.packet, out.source, out.destination);
    receive({out.packet, out.source, out.destination, grh}, counters_.loop, now);
}

// What lies in one piece, as most does, is read where it is.
bool Device::payload_of(const engine::OutPacket& out, wire::ConstBytes& payload) noexcept {
    const std::uint32_t len = payload_bytes(out);
    payload = {static_cast<const std::uint8_t*>(out.pieces[0].iov_base), len};
    if (len == 0 || out.pieces[0].iov_len == len) {
        return true;
    }
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; at < len; ++i) {
        const iovec& piece = out.pieces[i];
        if (!memory_.copy_out(gathered_.data() + at, reinterpret_cast<std::uintptr_t>(piece.iov_base),
                              piece.iov_len)) {
            return false;
        }
        at += static_cast<std::uint32_t>(piece.iov_len);
    }
    payload = {gathered_.data(), len};
    return true;
}

void Device::receive(const engine::InPacket& in, PathCounters& path, const engine::Moment& now) noexcept {
    path.received(in.packet.payload.size());
    if (instrumentation_.faults == nullptr) {
        engine_.receive(in, now);
        return;
    }
    const socket::ReceiveVerdict verdict = instrumentation_.faults->schedule().on_receive(in.packet);
    if (verdict.drop) {
        return;
    }
    engine::InPacket taken = in;
    taken.not_ready = verdict.rnr;
    engine_.receive(taken, now);
    if (verdict.duplicate) {
        engine_.receive(in, now);
    }
}

void Device::read_inbox(const engine::Moment& now) noexcept {
    for (const Inbox::Entry* entry = inbox_.front(); entry != nullptr; entry = inbox_.front()) {
        const wire::Grh grh = grh_of(entry->packet, entry->source, entry->destination);
        receive({entry->packet, entry->source, entry->destination, grh}, counters_.loop, now);
        inbox_.pop();
    }
}

void Device::read_rings(const engine::Moment& now) noexcept {
    if (!std::exchange(rings_due_, false)) {
        return;
    }
    same_host_->read_packets([&](const near::RingPacket& in) {
        const wire::Grh grh = grh_of(in.packet, in.source, in.destination);
        receive({.packet = in.packet,
                 .source = in.source,
                 .destination = in.destination,
                 .grh = grh,
                 .through_memory = true,
                 .acknowledged_psn = in.acknowledged_psn},
                counters_.memory, now);
    });
    if (same_host_->room_again()) {
        engine_.room_again();
    }
}

void Device::packet(const engine::InPacket& in) noexcept {
    receive(in, counters_.udp, *link_time_);
}

} // namespace sluice::uroce::device
