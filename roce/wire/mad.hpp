// SPDX-License-Identifier: BSD-3-Clause
//
// Management datagrams (IBTA vol 1, 13.4): 256 bytes to QP 1, a header of 24 and what its class says.
// The connection manager's messages are in cm.hpp.
#pragma once

#include "roce/wire/bytes.hpp"

namespace sluice::roce::wire {

inline constexpr std::size_t kMadBytes = 256;
inline constexpr std::uint32_t kGsiQpn = 1;
inline constexpr std::uint32_t kGsiQkey = 0x80010000;

struct MadHeader {
    static constexpr std::size_t kBytes = 24;
    static constexpr std::uint8_t kClassCm = 0x07;
    static constexpr std::uint8_t kMethodSend = 0x03;
    std::uint8_t base_version = 1;
    std::uint8_t management_class = kClassCm;
    std::uint8_t class_version = 2;
    std::uint8_t method = kMethodSend;
    std::uint16_t status = 0;
    std::uint16_t class_specific = 0;
    std::uint64_t transaction_id = 0;
    std::uint16_t attribute_id = 0;
    std::uint16_t reserved16 = 0;
    std::uint32_t attribute_modifier = 0;

    template<typename Io, typename Self>
    static constexpr void layout(Io& io, Self& h) {
        io.template field<0, 8>(h.base_version);
        io.template field<8, 8>(h.management_class);
        io.template field<16, 8>(h.class_version);
        io.template field<24, 8>(h.method);
        io.template field<32, 16>(h.status);
        io.template field<48, 16>(h.class_specific);
        io.template field<64, 64>(h.transaction_id);
        io.template field<128, 16>(h.attribute_id);
        io.template field<144, 16>(h.reserved16);
        io.template field<160, 32>(h.attribute_modifier);
    }
    bool operator==(const MadHeader&) const = default;
};

} // namespace sluice::roce::wire
