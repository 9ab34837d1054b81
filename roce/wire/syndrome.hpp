// SPDX-License-Identifier: BSD-3-Clause
//
// What an AETH says (IBTA vol 1, 9.7.5.2): an acknowledgement with credits, "receiver not ready,
// come back after so long", or a refusal with its reason.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::roce::wire {

enum class AckKind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

enum class NakCode : std::uint8_t {
    kSequence = 0,
    kInvalidRequest = 1,
    kRemoteAccess = 2,
    kRemoteOperational = 3,
    kInvalidRd = 4,
};

// Bit 7 is reserved, 6 and 5 are the kind, the rest is credits, timer or code.
constexpr AckKind ack_kind(std::uint8_t syndrome) noexcept {
    return static_cast<AckKind>(syndrome >> 5 & 3);
}
constexpr std::uint8_t ack_value(std::uint8_t syndrome) noexcept {
    return syndrome & 0x1f;
}
constexpr std::uint8_t nak_syndrome(NakCode code) noexcept {
    return static_cast<std::uint8_t>(0x60 | static_cast<unsigned>(code));
}
constexpr std::uint8_t rnr_syndrome(std::uint8_t timer) noexcept {
    return static_cast<std::uint8_t>(0x20 | (timer & 0x1f));
}

// "No end-to-end credits": what rxe sends, and what a peer must take as unlimited.
inline constexpr std::uint8_t kAckNoCredits = 0x1f;

// 9.7.5.2: RNR NAK timer codes in microseconds.
inline constexpr std::array<std::uint32_t, 32> kRnrTimerUs = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

constexpr std::uint64_t rnr_timer_ns(std::uint8_t code) noexcept {
    return std::uint64_t{kRnrTimerUs[code & 0x1f]} * 1000;
}

// 9.7.6: 4.096 us times two to the code; code 0 means no timer at all.
constexpr std::uint64_t ack_timeout_ns(std::uint8_t code) noexcept {
    return code == 0 ? 0 : std::uint64_t{4096} << (code & 0x1f);
}

} // namespace sluice::roce::wire
