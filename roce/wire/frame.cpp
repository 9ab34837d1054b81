// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/frame.hpp"

namespace sluice::roce::wire {
namespace {

constexpr std::uint8_t kMoreFragments = 1;

// Both leave in REST what the IP header says is its payload.
bool take_ipv4(ConstBytes datagram, Ipv4Header& ip, ConstBytes& rest) noexcept {
    if (datagram.size() < Ipv4Header::kBytes) {
        return false;
    }
    ip = decode<Ipv4Header>(datagram.first<Ipv4Header::kBytes>());
    if (ip.header_words != Ipv4Header::kBytes / 4 || ip.protocol != kProtocolUdp || ip.fragment_offset != 0 ||
        (ip.flags & kMoreFragments) != 0 || ip.total_bytes < Ipv4Header::kBytes ||
        ip.total_bytes > datagram.size()) {
        return false;
    }
    rest = datagram.subspan(Ipv4Header::kBytes, ip.total_bytes - Ipv4Header::kBytes);
    return true;
}

bool take_ipv6(ConstBytes datagram, Ipv6Header& ip, ConstBytes& rest) noexcept {
    if (datagram.size() < Ipv6Header::kBytes) {
        return false;
    }
    ip = decode<Ipv6Header>(datagram.first<Ipv6Header::kBytes>());
    if (ip.next_header != kProtocolUdp || ip.payload_bytes > datagram.size() - Ipv6Header::kBytes) {
        return false;
    }
    rest = datagram.subspan(Ipv6Header::kBytes, ip.payload_bytes);
    return true;
}

} // namespace

Refusal parse_frame(ConstBytes datagram, Frame& out) noexcept {
    if (datagram.empty()) {
        return Refusal::kTruncated;
    }
    ConstBytes rest;
    out.is_ipv6 = datagram[0] >> 4 == 6;
    const bool is_ip = out.is_ipv6 ? take_ipv6(datagram, out.ipv6, rest)
                                   : datagram[0] >> 4 == 4 && take_ipv4(datagram, out.ipv4, rest);
    if (!is_ip || rest.size() < UdpHeader::kBytes) {
        return Refusal::kNotRoce;
    }
    out.udp = decode<UdpHeader>(rest.first<UdpHeader::kBytes>());
    if (out.udp.destination_port != kRocePort || out.udp.length_bytes != rest.size()) {
        return Refusal::kNotRoce;
    }
    rest = rest.subspan(UdpHeader::kBytes);
    if (rest.size() < Bth::kBytes + kIcrcBytes) {
        return Refusal::kTruncated;
    }
    out.transport = rest.first(rest.size() - kIcrcBytes);
    out.icrc = icrc_load(rest.last<kIcrcBytes>());
    return Refusal::kNone;
}

std::uint32_t expected_icrc(const Frame& frame) noexcept {
    const auto bth = frame.transport.first<Bth::kBytes>();
    const std::uint32_t state =
        frame.is_ipv6 ? icrc_begin(frame.ipv6, frame.udp, bth) : icrc_begin(frame.ipv4, frame.udp, bth);
    return icrc_end(crc32_update(state, frame.transport.subspan(Bth::kBytes)));
}

std::size_t write_ip_udp(const Frame& frame, std::size_t transport_bytes, MutableBytes out) noexcept {
    const std::size_t written = frame.ip_bytes() + UdpHeader::kBytes;
    const std::size_t udp_bytes = UdpHeader::kBytes + transport_bytes + kIcrcBytes;
    if (out.size() < written || frame.ip_bytes() + udp_bytes > 0xffff) {
        return 0;
    }
    UdpHeader udp = frame.udp;
    udp.length_bytes = static_cast<std::uint16_t>(udp_bytes);
    if (frame.is_ipv6) {
        Ipv6Header ip = frame.ipv6;
        ip.payload_bytes = static_cast<std::uint16_t>(udp_bytes);
        encode(ip, out.first<Ipv6Header::kBytes>());
    } else {
        Ipv4Header ip = frame.ipv4;
        ip.total_bytes = static_cast<std::uint16_t>(Ipv4Header::kBytes + udp_bytes);
        ip.checksum = ipv4_checksum(ip);
        encode(ip, out.first<Ipv4Header::kBytes>());
    }
    encode(udp, out.subspan(frame.ip_bytes()).first<UdpHeader::kBytes>());
    return written;
}

} // namespace sluice::roce::wire
