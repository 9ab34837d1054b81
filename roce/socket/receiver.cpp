// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/receiver.hpp"

#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/socket_calls.hpp"

namespace sluice::roce::socket {
namespace {

// Control messages come as a byte or as an int, by their kind and their sender.
std::uint32_t control_value(const cmsghdr& control) noexcept {
    const std::uint8_t* const data = CMSG_DATA(&control);
    if (control.cmsg_len >= CMSG_LEN(sizeof(std::uint32_t))) {
        std::uint32_t value = 0;
        std::memcpy(&value, data, sizeof value);
        return value;
    }
    return control.cmsg_len > CMSG_LEN(0) ? *data : 0;
}

// What routers change, and the ICRC doesn't cover.
void set_hops(wire::Frame& frame, std::uint8_t hops, std::uint8_t traffic_class) noexcept {
    frame.ipv4.ttl = frame.ipv6.hop_limit = hops;
    frame.ipv4.tos = frame.ipv6.traffic_class = traffic_class;
}

} // namespace

Receiver::Receiver(int socket, const engine::Address& local, PcapRecorder* recorder,
                   ReceiveCounters* counters)
    : socket_(socket), local_(local), recorder_(recorder),
      counters_(counters != nullptr ? *counters : own_counters_),
      bytes_(MappedBytes::allocate(kMaxMessages * kMessageBytes)),
      valid_(std::make_unique_for_overwrite<Valid[]>(std::size_t{kMaxMessages} * kMaxSegments)) {
    for (std::uint32_t i = 0; i < kMaxMessages; ++i) {
        vectors_[i] = {bytes_.at() + i * kMessageBytes, kMessageBytes};
    }
}

void Receiver::prepare(std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
        msghdr& message = messages_[i].msg_hdr;
        message = {};
        message.msg_name = &addresses_[i];
        message.msg_namelen = sizeof addresses_[i].v6;
        message.msg_iov = &vectors_[i];
        message.msg_iovlen = 1;
        message.msg_control = controls_[i].bytes.data();
        message.msg_controllen = kControlBytes;
    }
}

std::uint32_t Receiver::fetch(std::uint32_t max_messages) noexcept {
    max_messages = std::min(max_messages, kMaxMessages);
    valid_count_ = 0;
    prepare(std::exchange(used_messages_, 0));
    const int taken = receive_messages(socket_, messages_.data(), max_messages, MSG_DONTWAIT);
    if (taken <= 0) {
        return 0;
    }
    counters_.calls.add();
    const auto count = used_messages_ = static_cast<std::uint32_t>(taken);
    for (std::uint32_t i = 0; i < count; ++i) {
        msghdr& message = messages_[i].msg_hdr;
        if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || !read_control(message, sources_[i])) {
            counters_.truncated.add();
            continue;
        }
        sources_[i].address = from_socket_address(addresses_[i].any);
        sources_[i].port =
            ntohs(engine::is_ipv4(local_) ? addresses_[i].v4.sin_port : addresses_[i].v6.sin6_port);
        split(i, messages_[i].msg_len);
    }
    return count;
}

bool Receiver::read_control(msghdr& message, Source& source) noexcept {
    source = {};
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
        const std::uint32_t value = control_value(*one);
        if (one->cmsg_level == SOL_UDP && one->cmsg_type == UDP_GRO) {
            source.segment_bytes = value;
            if (value == 0) {
                return false;
            }
        } else if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SO_RXQ_OVFL) {
            counters_.overflowed.set(value);
        } else if ((one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TTL) ||
                   (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_HOPLIMIT)) {
            source.hops = static_cast<std::uint8_t>(value);
        } else if ((one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS) ||
                   (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS)) {
            source.traffic_class = static_cast<std::uint8_t>(value);
        }
    }
    return true;
}

void Receiver::split(std::uint32_t message, std::size_t len_bytes) noexcept {
    const std::uint32_t told = sources_[message].segment_bytes;
    const std::size_t segment_bytes = told != 0 ? told : std::max<std::size_t>(len_bytes, 1);
    counters_.gro_receives.add(segment_bytes < len_bytes ? 1 : 0);
    std::size_t offset = 0;
    std::uint32_t index = 0;
    do {
        if (index == kMaxSegments) {
            counters_.malformed.add();
            return;
        }
        const std::size_t len = std::min(segment_bytes, len_bytes - offset);
        check(message, offset, len, index++);
        offset += len;
    } while (offset < len_bytes);
}

void Receiver::check(std::uint32_t message, std::size_t offset, std::size_t len_bytes,
                     std::uint32_t index) noexcept {
    if (len_bytes < wire::Bth::kBytes + wire::kIcrcBytes) {
        counters_.truncated.add();
        return;
    }
    const Source& source = sources_[message];
    const wire::ConstBytes whole(bytes_of(message) + offset, len_bytes);
    wire::Frame frame =
        frame_between(source.address, local_, source.port, whole.first(len_bytes - wire::kIcrcBytes));
    frame.icrc = wire::icrc_load(whole.last<wire::kIcrcBytes>());
    frame.ipv4.identification = static_cast<std::uint16_t>(index);
    const bool valid = verify(frame, source.address);
    if (recorder_ != nullptr) {
        set_hops(frame, source.hops, source.traffic_class);
        recorder_->record(frame, whole);
    }
    if (valid) {
        valid_[valid_count_++] = {.message = message,
                                  .offset = static_cast<std::uint32_t>(offset),
                                  .transport_bytes = static_cast<std::uint16_t>(frame.transport.size()),
                                  .identification = frame.ipv4.identification};
    }
}

// FRAME has the identification that is expected, and gets the one that fits.
bool Receiver::verify(wire::Frame& frame, const engine::Address& source) noexcept {
    const std::uint32_t expected = wire::expected_icrc(frame);
    if (frame.icrc == expected) {
        return true;
    }
    // The difference is that of the identifications, too: the checksum is linear.
    const auto difference = frame.is_ipv6
                                ? std::nullopt
                                : wire::solve_identification(frame.icrc, expected, frame.transport.size());
    if (!difference) {
        counters_.bad_icrc.add();
        watch_.damaged(source);
        return false;
    }
    frame.ipv4.identification ^= *difference;
    if (!watch_.believes(source, frame.ipv4.identification)) {
        counters_.implausible.add();
        return false;
    }
    counters_.solved.add();
    return true;
}

bool Receiver::parse(const Valid& valid, wire::Packet& packet, wire::Grh& grh) noexcept {
    const wire::ConstBytes transport(bytes_of(valid.message) + valid.offset, valid.transport_bytes);
    if (wire::parse(transport, packet) != wire::Refusal::kNone) {
        counters_.malformed.add();
        return false;
    }
    if (packet.info().transport == wire::Transport::kUd) {
        const Source& source = sources_[valid.message];
        wire::Frame frame = frame_between(source.address, local_, source.port, transport);
        frame.ipv4.identification = valid.identification;
        set_hops(frame, source.hops, source.traffic_class);
        grh = frame.is_ipv6 ? wire::make_grh(frame.ipv6) : wire::make_grh(frame.ipv4);
    }
    return true;
}

} // namespace sluice::roce::socket
