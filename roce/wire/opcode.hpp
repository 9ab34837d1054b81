// SPDX-License-Identifier: BSD-3-Clause
//
// BTH opcodes (IBTA vol 1, 9.2; XRC from annex A14; flush and atomic write from annex A19; CNP from annex
// A17) and what each of them means: transport, operation, place in its message, and which headers follow the
// BTH. Headers follow each other in the order of the Header bits below, XRCETH before all others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::roce::wire {

enum Opcode : std::uint8_t {
    kRcSendFirst = 0x00,
    kRcSendMiddle = 0x01,
    kRcSendLast = 0x02,
    kRcSendLastImm = 0x03,
    kRcSendOnly = 0x04,
    kRcSendOnlyImm = 0x05,
    kRcWriteFirst = 0x06,
    kRcWriteMiddle = 0x07,
    kRcWriteLast = 0x08,
    kRcWriteLastImm = 0x09,
    kRcWriteOnly = 0x0a,
    kRcWriteOnlyImm = 0x0b,
    kRcReadRequest = 0x0c,
    kRcReadResponseFirst = 0x0d,
    kRcReadResponseMiddle = 0x0e,
    kRcReadResponseLast = 0x0f,
    kRcReadResponseOnly = 0x10,
    kRcAcknowledge = 0x11,
    kRcAtomicAcknowledge = 0x12,
    kRcCompareSwap = 0x13,
    kRcFetchAdd = 0x14,
    kRcSendLastInv = 0x16,
    kRcSendOnlyInv = 0x17,
    kRcFlush = 0x1c,
    kRcAtomicWrite = 0x1d,
    kUcSendFirst = 0x20,
    kUcSendMiddle = 0x21,
    kUcSendLast = 0x22,
    kUcSendLastImm = 0x23,
    kUcSendOnly = 0x24,
    kUcSendOnlyImm = 0x25,
    kUcWriteFirst = 0x26,
    kUcWriteMiddle = 0x27,
    kUcWriteLast = 0x28,
    kUcWriteLastImm = 0x29,
    kUcWriteOnly = 0x2a,
    kUcWriteOnlyImm = 0x2b,
    kUdSendOnly = 0x64,
    kUdSendOnlyImm = 0x65,
    kCnp = 0x81,
};

// XRC has RC's operations, with this in front of each.
inline constexpr std::uint8_t kXrcOpcodes = 0xa0;

constexpr std::uint8_t over_xrc(Opcode rc) noexcept {
    return static_cast<std::uint8_t>(kXrcOpcodes | rc);
}

enum class Transport : std::uint8_t { kNone, kRc, kUc, kUd, kXrc, kCnp };

enum class Operation : std::uint8_t {
    kNone,
    kSend,
    kWrite,
    kReadRequest,
    kReadResponse,
    kAcknowledge,
    kAtomicAcknowledge,
    kCompareSwap,
    kFetchAdd,
    kFlush,
    kAtomicWrite,
    kCongestion,
};

// Place in the message: kFirst and kLast together are an "only".
inline constexpr std::uint8_t kStarts = 1, kEnds = 2;

enum Header : std::uint16_t {
    kHasDeth = 1 << 0,
    kHasFeth = 1 << 1,
    kHasReth = 1 << 2,
    kHasAtomicEth = 1 << 3,
    kHasAeth = 1 << 4,
    kHasAtomicAckEth = 1 << 5,
    kHasImmDt = 1 << 6,
    kHasIeth = 1 << 7,
    kHasPayload = 1 << 8, // may be empty; without this bit it must be
    kHasXrcEth = 1 << 9,  // right behind the BTH
};

struct OpcodeInfo {
    std::string_view name;
    Transport transport = Transport::kNone;
    Operation operation = Operation::kNone;
    std::uint8_t place = 0;
    std::uint8_t header_bytes = 0; // of all headers, the BTH included
    std::uint16_t headers = 0;

    constexpr bool known() const noexcept { return transport != Transport::kNone; }
    constexpr bool starts() const noexcept { return (place & kStarts) != 0; }
    constexpr bool ends() const noexcept { return (place & kEnds) != 0; }
    constexpr bool has(Header header) const noexcept { return (headers & header) != 0; }
    // Sent by the side that asked, or by the side that answers.
    constexpr bool is_response() const noexcept {
        return operation == Operation::kReadResponse || operation == Operation::kAcknowledge ||
               operation == Operation::kAtomicAcknowledge;
    }
};

extern const std::array<OpcodeInfo, 256> kOpcodes;

// For any byte. The entry of an unknown opcode isn't known().
inline const OpcodeInfo& opcode_info(std::uint8_t opcode) noexcept {
    return kOpcodes[opcode];
}

// The longest: BTH, XRCETH, AtomicETH.
inline constexpr std::size_t kMaxHeaderBytes = 44;

} // namespace sluice::roce::wire
