// SPDX-License-Identifier: BSD-3-Clause
//
// IPv4, IPv6 and UDP headers, as far as RoCEv2 needs them (IBTA annex A17): for the ICRC, which
// covers most of them, for recordings, and for the forty bytes in front of a received UD message.
#pragma once

#include "roce/wire/bytes.hpp"

namespace sluice::roce::wire {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint8_t kProtocolUdp = 17;

// Without options: RoCEv2 allows none.
struct Ipv4Header {
    static constexpr std::size_t kBytes = 20;
    std::uint8_t version = 4;
    std::uint8_t header_words = 5;
    std::uint8_t tos = 0;
    std::uint16_t total_bytes = 0;
    std::uint16_t identification = 0;
    std::uint8_t flags = 2; // don't fragment
    std::uint16_t fragment_offset = 0;
    std::uint8_t ttl = 64;
    std::uint8_t protocol = kProtocolUdp;
    std::uint16_t checksum = 0;
    std::array<std::uint8_t, 4> source{};
    std::array<std::uint8_t, 4> destination{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 4>(h.version);
        io.template field<4, 4>(h.header_words);
        io.template field<8, 8>(h.tos);
        io.template field<16, 16>(h.total_bytes);
        io.template field<32, 16>(h.identification);
        io.template field<48, 3>(h.flags);
        io.template field<51, 13>(h.fragment_offset);
        io.template field<64, 8>(h.ttl);
        io.template field<72, 8>(h.protocol);
        io.template field<80, 16>(h.checksum);
        io.template bytes<12>(h.source);
        io.template bytes<16>(h.destination);
    }
    bool operator==(const Ipv4Header&) const = default;
};

struct Ipv6Header {
    static constexpr std::size_t kBytes = 40;
    std::uint8_t version = 6;
    std::uint8_t traffic_class = 0;
    std::uint32_t flow_label = 0;
    std::uint16_t payload_bytes = 0;
    std::uint8_t next_header = kProtocolUdp;
    std::uint8_t hop_limit = 64;
    std::array<std::uint8_t, 16> source{};
    std::array<std::uint8_t, 16> destination{};

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 4>(h.version);
        io.template field<4, 8>(h.traffic_class);
        io.template field<12, 20>(h.flow_label);
        io.template field<32, 16>(h.payload_bytes);
        io.template field<48, 8>(h.next_header);
        io.template field<56, 8>(h.hop_limit);
        io.template bytes<8>(h.source);
        io.template bytes<24>(h.destination);
    }
    bool operator==(const Ipv6Header&) const = default;
};

struct UdpHeader {
    static constexpr std::size_t kBytes = 8;
    std::uint16_t source_port = kRocePort;
    std::uint16_t destination_port = kRocePort;
    std::uint16_t length_bytes = 0;
    std::uint16_t checksum = 0; // 0 is legal over IPv4, and what rxe sends

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 16>(h.source_port);
        io.template field<16, 16>(h.destination_port);
        io.template field<32, 16>(h.length_bytes);
        io.template field<48, 16>(h.checksum);
    }
    bool operator==(const UdpHeader&) const = default;
};

// RFC 791: what HEADER.checksum must be, whatever it is now.
constexpr std::uint16_t ipv4_checksum(Ipv4Header header) noexcept {
    header.checksum = 0;
    const auto bytes = encoded(header);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        sum += static_cast<std::uint32_t>(bytes[i] << 8 | bytes[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum & 0xffff);
}

// The forty bytes that a UD receive buffer begins with. Over IPv4 the header sits in the last
// twenty, with a checksum that holds: libibverbs tells the two apart by verifying it.
using Grh = std::array<std::uint8_t, 40>;

constexpr Grh make_grh(const Ipv4Header& header) noexcept {
    Ipv4Header valid = header;
    valid.checksum = ipv4_checksum(header);
    const auto bytes = encoded(valid);
    Grh grh{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        grh[20 + i] = bytes[i];
    }
    return grh;
}

constexpr Grh make_grh(const Ipv6Header& header) noexcept {
    return encoded(header);
}

} // namespace sluice::roce::wire
