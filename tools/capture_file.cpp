// SPDX-License-Identifier: BSD-3-Clause
#include "tools/capture_file.hpp"

#include <algorithm>
#include <array>

#include "tools/output.hpp"

namespace sluice::tools {
namespace {

constexpr std::size_t kMostBytes = 1 << 18;      // of a record; a datagram has 2^16 at most
constexpr std::size_t kMostInterfaces = 1 << 12; // of a section

constexpr std::uint32_t kMicroseconds = 0xa1b2c3d4, kNanoseconds = 0xa1b23c4d;
constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a, kByteOrder = 0x1a2b3c4d;
constexpr std::uint32_t kInterfaceBlock = 1, kSimpleBlock = 3, kEnhancedBlock = 6;
constexpr std::uint32_t kLinkMask = 0xffff; // above it, a classic file says how checksums are kept

constexpr std::uint32_t swapped(std::uint32_t value) {
    return value << 24 | (value & 0xff00) << 8 | (value >> 8 & 0xff00) | value >> 24;
}

std::uint32_t big_endian_32(const std::uint8_t* from) {
    return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 |
           from[3];
}

// Header lengths of link types, and where the type of what follows is told; 0: by the IP version.
struct Link {
    std::uint32_t type;
    std::size_t header_bytes;
    std::size_t ethertype_at;
};
constexpr std::array kLinks{Link{1, 14, 12}, Link{113, 16, 14}, Link{276, 20, 0}, Link{0, 4, 0},
                            Link{108, 4, 0}, Link{101, 0, 0},   Link{12, 0, 0},   Link{14, 0, 0},
                            Link{228, 0, 0}, Link{229, 0, 0}};

std::uint16_t big_endian_16(std::span<const std::uint8_t> bytes, std::size_t at) {
    return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

bool is_ip(std::span<const std::uint8_t> datagram) {
    return !datagram.empty() && (datagram[0] >> 4 == 4 || datagram[0] >> 4 == 6);
}

} // namespace

std::span<const std::uint8_t> ip_datagram(const Captured& packet) {
    constexpr std::uint16_t kVlan = 0x8100, kServiceVlan = 0x88a8, kIpv4 = 0x0800, kIpv6 = 0x86dd;
    constexpr std::size_t kTagBytes = 4;
    const auto* const link = std::ranges::find(kLinks, packet.link_type, &Link::type);
    if (link == kLinks.end() || packet.bytes.size() < link->header_bytes) {
        return {};
    }
    std::size_t header_bytes = link->header_bytes;
    if (link->ethertype_at != 0) {
        std::uint16_t type = big_endian_16(packet.bytes, header_bytes - 2);
        while ((type == kVlan || type == kServiceVlan) && packet.bytes.size() >= header_bytes + kTagBytes) {
            header_bytes += kTagBytes;
            type = big_endian_16(packet.bytes, header_bytes - 2);
        }
        if (type != kIpv4 && type != kIpv6) {
            return {};
        }
    }
    const auto datagram = packet.bytes.subspan(header_bytes);
    return is_ip(datagram) ? datagram : std::span<const std::uint8_t>();
}

CaptureFile::CaptureFile(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {
    std::array<std::uint8_t, 4> magic{};
    if (!take(magic.data(), magic.size(), true)) {
        fail("the file is empty");
    }
    const std::uint32_t value = big_endian_32(magic.data());
    if (value == kSectionBlock) {
        is_blocks_ = true; // the same in either byte order
        return;
    }
    is_big_endian_ = value == kMicroseconds || value == kNanoseconds;
    const std::uint32_t number = is_big_endian_ ? value : swapped(value);
    if (number != kMicroseconds && number != kNanoseconds) {
        fail("this is neither a pcap nor a pcapng file");
    }
    take_bytes(20);
    interfaces_.push_back({.link_type = load32(bytes_.data() + 16) & kLinkMask,
                           .ticks_per_second = number == kNanoseconds ? 1000000000U : 1000000U});
}

void CaptureFile::fail(const std::string& what) const {
    throw Failure(kExitFailure, name_ + ": byte " + std::to_string(at_) + ": " + what);
}

// False when the file ends exactly here and MAY_END.
bool CaptureFile::take(std::uint8_t* to, std::size_t count, bool may_end) {
    in_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count));
    const auto taken = static_cast<std::size_t>(in_.gcount());
    if (in_.bad()) {
        fail("the file can't be read");
    }
    if (taken == 0 && may_end) {
        return false;
    }
    if (taken < count) {
        fail("the file ends in the middle of something");
    }
    at_ += count;
    return true;
}

void CaptureFile::take_bytes(std::size_t count) {
    bytes_.resize(count);
    take(bytes_.data(), count, count == 0);
}

std::uint32_t CaptureFile::load32(const std::uint8_t* from) const {
    const std::uint32_t value = big_endian_32(from);
    return is_big_endian_ ? value : swapped(value);
}

std::uint16_t CaptureFile::load16(const std::uint8_t* from) const {
    return static_cast<std::uint16_t>(is_big_endian_ ? from[0] << 8 | from[1] : from[1] << 8 | from[0]);
}

bool CaptureFile::next(Captured& packet) {
    return is_blocks_ ? next_block(packet) : next_classic(packet);
}

bool CaptureFile::next_classic(Captured& packet) {
    std::array<std::uint8_t, 16> header{};
    if (!take(header.data(), header.size(), true)) {
        return false;
    }
    const std::uint32_t kept = load32(header.data() + 8);
    if (kept > kMostBytes) {
        fail("a packet of " + std::to_string(kept) + " bytes can't be");
    }
    take_bytes(kept);
    const std::uint64_t per_tick = 1000000000 / interfaces_[0].ticks_per_second;
    packet = {.seconds = load32(header.data()),
              .nanoseconds = static_cast<std::uint32_t>(load32(header.data() + 4) * per_tick % 1000000000),
              .link_type = interfaces_[0].link_type,
              .is_whole = load32(header.data() + 12) <= kept,
              .bytes = bytes_};
    return true;
}

// Blocks: type, length, body, length again. What isn't known is skipped, as the format says.
bool CaptureFile::next_block(Captured& packet) {
    while (true) {
        std::array<std::uint8_t, 8> header{};
        // The type of the first one has been read already.
        const std::size_t known = at_first_block_ ? 4 : 0;
        if (!take(header.data() + known, header.size() - known, !at_first_block_)) {
            return false;
        }
        const bool is_section = at_first_block_ || big_endian_32(header.data()) == kSectionBlock;
        at_first_block_ = false;
        std::array<std::uint8_t, 4> order{};
        if (is_section) {
            take(order.data(), order.size(), false);
            is_big_endian_ = big_endian_32(order.data()) == kByteOrder;
            if (!is_big_endian_ && swapped(big_endian_32(order.data())) != kByteOrder) {
                fail("a section of unknown byte order");
            }
        }
        const std::size_t taken = is_section ? 12 : 8;
        const std::uint32_t len = load32(header.data() + 4);
        if (len % 4 != 0 || len < taken + 4 || len > kMostBytes) {
            fail("a block of " + std::to_string(len) + " bytes can't be");
        }
        take_bytes(len - taken);
        if (load32(bytes_.data() + bytes_.size() - 4) != len) {
            fail("the two lengths of a block differ");
        }
        bytes_.resize(bytes_.size() - 4);
        const std::uint32_t type = is_section ? kSectionBlock : load32(header.data());
        if (type == kSectionBlock) {
            interfaces_.clear();
        } else if (type == kInterfaceBlock) {
            add_interface();
        } else if ((type == kEnhancedBlock && take_enhanced(packet)) ||
                   (type == kSimpleBlock && take_simple(packet))) {
            return true;
        }
    }
}

// Of the options only the resolution of time matters: a power of ten, or of two with the top bit set.
void CaptureFile::add_interface() {
    constexpr std::uint16_t kEndOfOptions = 0, kResolution = 9;
    constexpr std::size_t kFixed = 8;
    if (bytes_.size() < kFixed || interfaces_.size() == kMostInterfaces) {
        fail("an interface that can't be");
    }
    Interface interface { .link_type = load16(bytes_.data()) };
    for (std::size_t at = kFixed; at + 4 <= bytes_.size();) {
        const std::uint16_t code = load16(bytes_.data() + at);
        const std::size_t len = load16(bytes_.data() + at + 2);
        at += 4;
        if (code == kEndOfOptions || len > bytes_.size() - at) {
            break;
        }
        if (code == kResolution && len == 1) {
            const unsigned exponent = bytes_[at] & 0x7f;
            const bool is_binary = (bytes_[at] & 0x80) != 0;
            if (exponent > (is_binary ? 30U : 9U)) {
                fail("a resolution of time that isn't understood");
            }
            interface.ticks_per_second = is_binary ? std::uint64_t{1} << exponent : 1;
            for (unsigned i = 0; !is_binary && i < exponent; ++i) {
                interface.ticks_per_second *= 10;
            }
        }
        at += (len + 3) / 4 * 4;
    }
    interfaces_.push_back(interface);
}

bool CaptureFile::take_enhanced(Captured& packet) {
    constexpr std::size_t kFixed = 20;
    const std::size_t room = bytes_.size() < kFixed ? 0 : bytes_.size() - kFixed;
    const std::uint32_t kept = bytes_.size() < kFixed ? 1 : load32(bytes_.data() + 12);
    const std::uint32_t number = kept > room ? 0 : load32(bytes_.data());
    if (kept > room || number >= interfaces_.size()) {
        fail("a packet longer than its block, or of no interface");
    }
    const Interface& interface = interfaces_[number];
    const std::uint64_t ticks = std::uint64_t{load32(bytes_.data() + 4)} << 32 | load32(bytes_.data() + 8);
    packet = {.seconds = ticks / interface.ticks_per_second,
              .nanoseconds = static_cast<std::uint32_t>(ticks % interface.ticks_per_second * 1000000000 /
                                                        interface.ticks_per_second),
              .link_type = interface.link_type,
              .is_whole = load32(bytes_.data() + 16) <= kept,
              .bytes = std::span(bytes_).subspan(kFixed, kept)};
    return true;
}

// Without time, of the first interface; its length is the packet's as it was on the wire.
bool CaptureFile::take_simple(Captured& packet) {
    if (bytes_.size() < 4 || interfaces_.empty()) {
        fail("a packet without a length, or of no interface");
    }
    const std::size_t whole = load32(bytes_.data());
    const std::size_t kept = std::min(whole, bytes_.size() - 4);
    packet = {.link_type = interfaces_[0].link_type,
              .is_whole = kept == whole,
              .bytes = std::span(bytes_).subspan(4, kept)};
    return true;
}

} // namespace sluice::tools
