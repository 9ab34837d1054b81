// SPDX-License-Identifier: BSD-3-Clause
//
// Ports on addresses of the loopback range that nobody uses: a RoCE port is always 4791, so that tests
// that run at the same time differ in their addresses instead.
#pragma once

#include <unistd.h>

#include <memory>

#include "roce/socket/udp_port.hpp"

namespace sluice::uroce::port::test {

inline Address loopback_address(std::uint32_t number) {
    return from_ipv4({127, static_cast<std::uint8_t>(16 + (number >> 16 & 0x7f)),
                      static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number % 254 + 1)});
}

// On the first address that is free; null when none of many is.
inline std::unique_ptr<UdpPort> open_free_port(Memory& memory, PortConfig config = {}) {
    static std::uint32_t number = static_cast<std::uint32_t>(getpid()) * 61;
    for (int tries = 0; tries < 1000; ++tries) {
        config.local = loopback_address(number++);
        auto port = UdpPort::open(config, memory);
        if (port) {
            return *std::move(port);
        }
    }
    return nullptr;
}

} // namespace sluice::uroce::port::test
