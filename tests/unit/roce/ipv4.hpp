// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "roce/engine/types.hpp"

namespace sluice::roce::test {

using namespace engine;

// 10.0.0.LAST_BYTE
inline Address ipv4(std::uint8_t last_byte) {
    Address made;
    made.gid[10] = made.gid[11] = 0xff;
    made.gid[12] = 10;
    made.gid[15] = last_byte;
    return made;
}

// 127.0.0.N
inline Address loopback(std::uint8_t last_byte) {
    Address made = ipv4(last_byte);
    made.gid[12] = 127;
    return made;
}

} // namespace sluice::roce::test
