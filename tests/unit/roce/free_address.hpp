// SPDX-License-Identifier: BSD-3-Clause
//
// Ports on loopback addresses of this process alone.
#pragma once

#include <memory>

#include "roce/socket/udp_port.hpp"
#include "tests/loopback.hpp"

namespace sluice::roce::socket::test {

using namespace engine;

// Null with a message when it can't be opened.
inline std::unique_ptr<UdpPort> open_free_port(Memory& memory, PortConfig config = {}) {
    const std::string address = sluice::test::Loopback::instance().next_address();
    config.local = *parse_address(address.c_str());
    auto port = UdpPort::open(config, memory);
    if (!port) {
        std::fprintf(stderr, "%s: %s\n", address.c_str(), port.error().text());
        return nullptr;
    }
    return *std::move(port);
}

} // namespace sluice::roce::socket::test
