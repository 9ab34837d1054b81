// SPDX-License-Identifier: BSD-3-Clause
#include "roce/wire/icrc.hpp"

#include <algorithm>
#include <array>

namespace sluice::roce::wire {
namespace {

constexpr std::size_t kDummyLrhBytes = 8;
constexpr std::size_t kCongestionByte = 4; // of the BTH

template<typename Ip>
std::uint32_t begin(const Ip& masked_ip, const UdpHeader& udp,
                    std::span<const std::uint8_t, Bth::kBytes> bth) noexcept {
    UdpHeader masked_udp = udp;
    masked_udp.checksum = 0xffff;
    std::array<std::uint8_t, kDummyLrhBytes + Ip::kBytes + UdpHeader::kBytes + Bth::kBytes> bytes{};
    std::span<std::uint8_t> rest(bytes);
    std::ranges::fill(rest.first<kDummyLrhBytes>(), std::uint8_t{0xff});
    rest = rest.subspan(kDummyLrhBytes);
    encode(masked_ip, rest.template first<Ip::kBytes>());
    rest = rest.subspan(Ip::kBytes);
    encode(masked_udp, rest.first<UdpHeader::kBytes>());
    rest = rest.subspan(UdpHeader::kBytes);
    std::ranges::copy(bth, rest.begin());
    rest[kCongestionByte] = 0xff;
    return crc32_update(~std::uint32_t{0}, bytes);
}

// x^(-8n) for n below 2^16 is a product of two entries: of the low byte and of the high byte of n.
struct InversePowers {
    std::array<std::uint32_t, 256> by_1{};
    std::array<std::uint32_t, 256> by_256{};
};

constexpr std::uint32_t back_one_byte(std::uint32_t a) {
    for (int bit = 0; bit < 8; ++bit) {
        a = crc32_over_x(a);
    }
    return a;
}

constexpr InversePowers make_inverse_powers() {
    InversePowers powers;
    std::uint32_t a = crc32_x_to(0);
    for (std::uint32_t& entry : powers.by_1) {
        entry = a;
        a = back_one_byte(a);
    }
    const std::uint32_t step = a;
    a = crc32_x_to(0);
    for (std::uint32_t& entry : powers.by_256) {
        entry = a;
        a = crc32_multiply(a, step);
    }
    return powers;
}

constexpr InversePowers kInverse = make_inverse_powers();

// The register after one byte, from zero; and which byte has this most significant byte: the
// map is one to one, which is what makes a CRC run backwards.
struct ByteSteps {
    std::array<std::uint32_t, 256> after{};
    std::array<std::uint8_t, 256> of_top{};
};

constexpr ByteSteps make_byte_steps() {
    ByteSteps steps;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc32_times_x(crc);
        }
        steps.after[byte] = crc;
        steps.of_top[crc >> 24] = static_cast<std::uint8_t>(byte);
    }
    return steps;
}

constexpr ByteSteps kSteps = make_byte_steps();

// Between the identification's last byte and the transport: the rest of the IP header, and UDP.
constexpr std::size_t kBytesBetween = Ipv4Header::kBytes - 6 + UdpHeader::kBytes;

} // namespace

std::uint32_t icrc_begin(const Ipv4Header& ip, const UdpHeader& udp,
                         std::span<const std::uint8_t, Bth::kBytes> bth) noexcept {
    Ipv4Header masked = ip;
    masked.tos = 0xff;
    masked.ttl = 0xff;
    masked.checksum = 0xffff;
    return begin(masked, udp, bth);
}

std::uint32_t icrc_begin(const Ipv6Header& ip, const UdpHeader& udp,
                         std::span<const std::uint8_t, Bth::kBytes> bth) noexcept {
    Ipv6Header masked = ip;
    masked.traffic_class = 0xff;
    masked.flow_label = 0xfffff;
    masked.hop_limit = 0xff;
    return begin(masked, udp, bth);
}

std::optional<std::uint16_t> solve_identification(std::uint32_t received, std::uint32_t expected_for_zero,
                                                  std::size_t transport_bytes) noexcept {
    const std::size_t distance = transport_bytes + kBytesBetween;
    if (distance > 0xffff) {
        return std::nullopt;
    }
    const std::uint32_t moved =
        crc32_multiply(received ^ expected_for_zero,
                       crc32_multiply(kInverse.by_1[distance & 0xff], kInverse.by_256[distance >> 8]));
    // MOVED is the register after two bytes from zero, if it is right. Take the second byte's step
    // back; it leaves the upper three bytes of the register after the first.
    const std::uint8_t index = kSteps.of_top[moved >> 24];
    const std::uint32_t after_first = (moved ^ kSteps.after[index]) << 8;
    const std::uint8_t first = kSteps.of_top[after_first >> 24];
    if ((kSteps.after[first] & 0xffffff00) != after_first) {
        return std::nullopt;
    }
    const auto second = static_cast<std::uint8_t>(index ^ (kSteps.after[first] & 0xff));
    return static_cast<std::uint16_t>(first << 8 | second);
}

} // namespace sluice::roce::wire
