// SPDX-License-Identifier: BSD-3-Clause
//
// The same packets as a recording of any format: classic or pcapng, either byte order, each link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {

using Datagrams = std::vector<std::vector<std::uint8_t>>;

enum class Link : std::uint32_t { kNull = 0, kEthernet = 1, kRawIp = 101, kCooked = 113, kCooked2 = 276 };

class CaptureBuilder {
  public:
    explicit CaptureBuilder(bool big_endian) : big_endian_(big_endian) {}

    // The time of packet number I is 1000 + I seconds and I milliseconds.
    std::string classic(const Datagrams& datagrams, Link link, bool nanoseconds, std::size_t vlan_tags = 0) {
        text_.clear();
        put(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4, 4);
        put(2, 2);
        put(4, 2);
        put(0, 4);
        put(0, 4);
        put(0x40000, 4);
        put(static_cast<std::uint32_t>(link), 4);
        for (std::uint32_t i = 0; i < datagrams.size(); ++i) {
            const std::string packet = in_link(datagrams[i], link, vlan_tags);
            put(1000 + i, 4);
            put(i * (nanoseconds ? 1000000 : 1000), 4);
            put(static_cast<std::uint32_t>(packet.size()), 4);
            put(static_cast<std::uint32_t>(packet.size()), 4);
            text_ += packet;
        }
        return text_;
    }

    // RESOLUTION as in if_tsresol; 0xff leaves the option out.
    std::string blocks(const Datagrams& datagrams, Link link, std::uint8_t resolution,
                       std::uint64_t ticks_per_second) {
        text_.clear();
        std::string body;
        put(0x0a0d0d0a, 4);
        put(28, 4);
        put(0x1a2b3c4d, 4);
        put(1, 2);
        put(0, 2);
        put(0xffffffff, 4);
        put(0xffffffff, 4);
        put(28, 4);
        put(0x0bad, 4); // a block that nobody knows
        put(16, 4);
        put(0, 4);
        put(16, 4);
        const std::uint32_t len = resolution == 0xff ? 20 : 32;
        put(1, 4);
        put(len, 4);
        put(static_cast<std::uint32_t>(link), 2);
        put(0, 2);
        put(0, 4);
        if (resolution != 0xff) {
            put(9, 2);
            put(1, 2);
            text_ += std::string({static_cast<char>(resolution), 0, 0, 0});
            put(0, 4);
        }
        put(len, 4);
        for (std::uint32_t i = 0; i < datagrams.size(); ++i) {
            enhanced(in_link(datagrams[i], link, 0),
                     (1000 + i) * ticks_per_second + i * ticks_per_second / 1000);
        }
        return text_;
    }

  private:
    void enhanced(const std::string& packet, std::uint64_t ticks) {
        const std::size_t padded = (packet.size() + 3) / 4 * 4;
        const auto len = static_cast<std::uint32_t>(32 + padded);
        put(6, 4);
        put(len, 4);
        put(0, 4);
        put(static_cast<std::uint32_t>(ticks >> 32), 4);
        put(static_cast<std::uint32_t>(ticks), 4);
        put(static_cast<std::uint32_t>(packet.size()), 4);
        put(static_cast<std::uint32_t>(packet.size()), 4);
        text_ += packet + std::string(padded - packet.size(), '\0');
        put(len, 4);
    }

    static std::string in_link(const std::vector<std::uint8_t>& datagram, Link link, std::size_t vlan_tags) {
        std::string packet;
        if (link == Link::kEthernet) {
            packet.assign(12, '\x02');
            for (std::size_t i = 0; i < vlan_tags; ++i) {
                packet += std::string("\x81\x00\x00\x07", 4);
            }
            packet += std::string("\x08\x00", 2);
        } else if (link == Link::kCooked) {
            packet = std::string(14, '\0') + std::string("\x08\x00", 2);
        } else if (link == Link::kCooked2) {
            packet = std::string("\x08\x00", 2) + std::string(18, '\0');
        } else if (link == Link::kNull) {
            packet = std::string("\x02\x00\x00\x00", 4);
        }
        return packet.append(datagram.begin(), datagram.end());
    }

    void put(std::uint32_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) {
            const int shift = 8 * (big_endian_ ? bytes - 1 - i : i);
            text_ += static_cast<char>(value >> shift);
        }
    }

    bool big_endian_;
    std::string text_;
};

} // namespace sluice::test
