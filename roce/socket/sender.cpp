// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/sender.hpp"

#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "core/log.hpp"
#include "core/not_cancelled.hpp"
#include "core/socket_calls.hpp"
#include "roce/socket/flat_packet.hpp"

namespace sluice::roce::socket {
namespace {

// One bit of the checksum, which no identification makes good at any length. Such a packet is sent
// alone: in a run the checksum might be computed anew.
void spoil(wire::MutableBytes packet) noexcept {
    packet.back() ^= 1;
}

} // namespace

Sender::Sender(int socket, const engine::Address& local, unsigned scope, engine::Memory& memory, bool use_gso,
               PcapRecorder* recorder, SendCounters* counters)
    : socket_(socket), scope_(scope), use_gso_(use_gso), local_(local), memory_(memory), recorder_(recorder),
      counters_(counters != nullptr ? *counters : own_counters_),
      bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(kBatchBytes)) {}

bool Sender::append(const engine::OutPacket& packet, bool damage) noexcept {
    const std::size_t packet_bytes = flat_bytes(packet);
    // Listeners to a group take packets one by one, and the kernel would number those of a run.
    const bool alone = damage || is_multicast(packet.destination);
    Run* const run = packet_bytes <= kMaxPacketBytes ? run_for(packet, packet_bytes, alone) : nullptr;
    if (run == nullptr) {
        counters_.lost.add();
        return false;
    }
    const wire::MutableBytes flat(bytes_.get() + used_bytes_, packet_bytes);
    if (!copy_packet(packet, memory_, flat)) {
        counters_.page_gone.add();
        run_count_ -= run->packets == 0 ? 1 : 0;
        return false;
    }
    const wire::Frame frame = seal(flat, local_, run->destination, static_cast<std::uint16_t>(run->packets));
    if (damage) {
        spoil(flat);
    }
    if (recorder_ != nullptr) {
        recorder_->record(frame, flat);
    }
    run->open = !alone && packet_bytes == run->segment_bytes && use_gso_;
    run->bytes += static_cast<std::uint32_t>(packet_bytes);
    ++run->packets;
    used_bytes_ += packet_bytes;
    return true;
}

// The last run if the packet may follow there, or a new one.
Sender::Run* Sender::run_for(const engine::OutPacket& packet, std::size_t packet_bytes, bool alone) noexcept {
    const std::uint32_t qpn = packet.packet.bth.dest_qpn;
    if (used_bytes_ + packet_bytes > kBatchBytes && !flush()) {
        return nullptr;
    }
    if (next_run_ != run_count_ && !alone) {
        Run& last = runs_[run_count_ - 1];
        if (last.open && packet_bytes <= last.segment_bytes && last.packets < kMaxSegments &&
            last.bytes + packet_bytes <= kMaxMessageBytes && last.destination == packet.destination &&
            last.qpn == qpn) {
            return &last;
        }
    }
    if (run_count_ == kMaxRuns && !flush()) {
        return nullptr;
    }
    Run& fresh = runs_[run_count_++];
    fresh = {.destination = packet.destination,
             .qpn = qpn,
             .offset = static_cast<std::uint32_t>(used_bytes_),
             .segment_bytes = static_cast<std::uint32_t>(packet_bytes)};
    return &fresh;
}

void Sender::prepare(std::size_t index) noexcept {
    const Run& run = runs_[index];
    addresses_[index] = to_socket_address(run.destination, wire::kRocePort, scope_);
    vectors_[index] = {bytes_.get() + run.offset, run.bytes};
    msghdr& message = messages_[index].msg_hdr;
    message = {};
    message.msg_name = &addresses_[index];
    message.msg_namelen = addresses_[index].bytes;
    message.msg_iov = &vectors_[index];
    message.msg_iovlen = 1;
    if (run.packets > 1) {
        message.msg_control = controls_[index].bytes.data();
        message.msg_controllen = controls_[index].bytes.size();
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_UDP;
        control->cmsg_type = UDP_SEGMENT;
        control->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
        const auto segment_bytes = static_cast<std::uint16_t>(run.segment_bytes);
        std::memcpy(CMSG_DATA(control), &segment_bytes, sizeof segment_bytes);
    }
}

bool Sender::flush() noexcept {
    for (std::size_t i = next_run_; i < run_count_; ++i) {
        prepare(i);
    }
    const NotCancelled guard;
    while (next_run_ < run_count_) {
        counters_.calls.add();
        const int sent = send_messages(socket_, &messages_[next_run_],
                                       static_cast<unsigned>(run_count_ - next_run_), MSG_DONTWAIT);
        if (sent <= 0 && !on_refusal(errno)) {
            return false;
        }
        for (int i = 0; i < sent; ++i, ++next_run_) {
            counters_.packets.add(runs_[next_run_].packets);
            counters_.gso_sends.add(runs_[next_run_].packets > 1 ? 1 : 0);
        }
    }
    next_run_ = run_count_ = used_bytes_ = 0;
    return true;
}

// The kernel takes the first run that is left not now, not like this, or not at all; the others get
// their chance. False: not now.
bool Sender::on_refusal(int os_errno) noexcept {
    if (os_errno == EINTR) {
        return true;
    }
    if (os_errno == EAGAIN || os_errno == EWOULDBLOCK) {
        return false;
    }
    const Run& run = runs_[next_run_];
    const bool no_segments = os_errno == EINVAL || os_errno == EIO || os_errno == EOPNOTSUPP;
    if (no_segments && run.packets > 1) {
        counters_.no_segmentation.add();
        if (send_singly(run) && use_gso_) {
            use_gso_ = false;
            SLUICE_LOG(kInfo, "uroce",
                       "%s: the kernel doesn't cut packets on this path (%s); each is sent alone",
                       to_text(local_).data(), strerrorname_np(os_errno));
        }
    } else {
        lose(run, os_errno);
    }
    ++next_run_;
    return true;
}

// Each with its own identification, which is 0. True when the kernel took the first, so that it was
// the cutting that it refused.
bool Sender::send_singly(const Run& run) noexcept {
    bool taken = false;
    const SocketAddress to = to_socket_address(run.destination, wire::kRocePort, scope_);
    std::uint8_t* packet = bytes_.get() + run.offset;
    std::size_t left = run.bytes;
    while (left != 0) {
        const std::size_t len = std::min<std::size_t>(left, run.segment_bytes);
        seal(wire::MutableBytes(packet, len), local_, run.destination, 0);
        if (sendto(socket_, packet, len, MSG_DONTWAIT, &to.any, to.bytes) >= 0) {
            counters_.packets.add();
            taken = taken || left == run.bytes;
        } else {
            counters_.lost.add();
            counters_.too_long.add(errno == EMSGSIZE ? 1 : 0);
        }
        packet += len;
        left -= len;
    }
    return taken;
}

void Sender::lose(const Run& run, int os_errno) noexcept {
    counters_.lost.add(run.packets);
    if (os_errno != EMSGSIZE) {
        return;
    }
    if (counters_.too_long.get() == 0) {
        SLUICE_LOG(
            kWarning, "uroce",
            "packets of %u bytes don't fit the path from %s to %s; lower the path MTU of the queue pair",
            run.segment_bytes, to_text(local_).data(), to_text(run.destination).data());
    }
    counters_.too_long.add(run.packets);
}

} // namespace sluice::roce::socket
