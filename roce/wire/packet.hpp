// SPDX-License-Identifier: BSD-3-Clause
//
// A transport packet: BTH, the headers that its opcode asks for, and the payload. This is what lies
// between the UDP header and the ICRC.
//
// parse() takes any bytes: each length is checked before what it covers is read, and what doesn't
// fit the standard is refused with a reason that a counter can be made of. Nothing is allocated and
// nothing is copied but the headers; the payload stays where it is.
#pragma once

#include "roce/wire/headers.hpp"
#include "roce/wire/opcode.hpp"

namespace sluice::roce::wire {

struct Packet {
    Bth bth;
    XrcEth xrc;
    Deth deth;
    Feth feth;
    Reth reth;
    AtomicEth atomic;
    Aeth aeth;
    AtomicAckEth atomic_ack;
    ImmDt imm;
    Ieth ieth;
    ConstBytes payload; // without padding

    const OpcodeInfo& info() const noexcept { return opcode_info(bth.opcode); }
};

// Why some bytes are no packet for us.
enum class Refusal : std::uint8_t {
    kNone,
    kTruncated,  // shorter than its headers, or than its padding
    kVersion,    // BTH TVer is not 0
    kOpcode,     // unknown or reserved
    kAlignment,  // payload and padding are no multiple of four
    kUnexpected, // payload where the opcode has none
    kNotRoce,    // no IP, fragment, options, other protocol, other port
    kIcrc,       // checksum doesn't fit
};

// TRANSPORT is the UDP payload without its last four bytes, the ICRC.
// OUT is written entirely on kNone, and partly otherwise.
Refusal parse(ConstBytes transport, Packet& out) noexcept;

// Writes BTH and the opcode's headers; returns their length, or 0 when OUT is too short or the
// opcode unknown. The payload and bth.pad zero bytes follow by the caller's hand.
std::size_t write_headers(const Packet& packet, MutableBytes out) noexcept;

// Zero bytes that make LEN_BYTES a multiple of four.
constexpr std::uint8_t padding(std::size_t len_bytes) noexcept {
    return static_cast<std::uint8_t>(-len_bytes & 3);
}

} // namespace sluice::roce::wire
