// SPDX-License-Identifier: BSD-3-Clause
//
// The engine's addresses are GIDs; sockets want theirs. An IPv4 address is the GID ::ffff:a.b.c.d.
#pragma once

#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <string_view>

#include "core/result.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

bool is_link_local(const engine::Address& address) noexcept; // of IPv6
// Of one host, and not "any": something to bind to or to send to.
bool is_unicast(const engine::Address& address) noexcept;
// Of a group: 224.0.0.0/4, or ff00::/8.
bool is_multicast(const engine::Address& address) noexcept;

std::array<std::uint8_t, 4> ipv4_bytes(const engine::Address& address) noexcept;
// Of 127.0.0.0/8, which no host but this one has.
bool is_on_loopback_network(const engine::Address& address) noexcept;
engine::Address from_ipv4(const std::array<std::uint8_t, 4>& bytes) noexcept;

// Either kind, as the socket interface takes it.
struct SocketAddress {
    union {
        sockaddr_in6 v6 = {};
        sockaddr_in v4;
        sockaddr any;
    };
    socklen_t bytes = 0;
};

// SCOPE is the interface of a link-local address, ignored for all others.
SocketAddress to_socket_address(const engine::Address& address, std::uint16_t port, unsigned scope) noexcept;
// All zeros when FROM is neither IPv4 nor IPv6.
engine::Address from_socket_address(const sockaddr& from) noexcept;

using AddressText = std::array<char, INET6_ADDRSTRLEN>;
AddressText to_text(const engine::Address& address) noexcept;
// Numbers only: names are not looked up.
Result<engine::Address> parse_address(std::string_view text);

struct NetworkDevice {
    std::array<char, IF_NAMESIZE> name{};
    unsigned index = 0;
    std::uint32_t mtu = 0;
};

// The interface of this network namespace that has the address.
Result<NetworkDevice> find_network_device(const engine::Address& address);

// The largest MTU of InfiniBand whose packets, with all their headers, fit an interface of NETDEV_MTU
// bytes; 0 when not even the smallest does.
constexpr std::uint32_t active_mtu(std::uint32_t netdev_mtu) noexcept {
    constexpr std::uint32_t kHeaders = 80;
    for (std::uint32_t mtu = 4096; mtu >= 256; mtu /= 2) {
        if (netdev_mtu >= mtu + kHeaders) {
            return mtu;
        }
    }
    return 0;
}

} // namespace sluice::roce::socket
