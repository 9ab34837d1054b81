// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/connect/socket_address.hpp"

#include <cerrno>
#include <cstring>

#include "roce/socket/address.hpp"

namespace sluice::uroce::connect {

Result<Endpoint> to_endpoint(const sockaddr& address) {
    if (address.sa_family != AF_INET && address.sa_family != AF_INET6) {
        return Error(ErrorKind::kInvalidArgument, "uroce has IPv4 and IPv6 addresses only", EAFNOSUPPORT);
    }
    in_port_t port = 0; // stands at the same place in both
    std::memcpy(&port, reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in, sin_port),
                sizeof port);
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    return Endpoint{socket::from_socket_address(address), ntohs(port)};
}

bool is_wildcard(const engine::Address& address) noexcept {
    return address == engine::Address{} || address == socket::from_ipv4({0, 0, 0, 0});
}

sockaddr_storage to_sockaddr(const engine::Address& address, std::uint16_t port) noexcept {
    const socket::SocketAddress from = socket::to_socket_address(address, port, 0);
    sockaddr_storage made{};
    std::memcpy(&made, &from.v6, from.bytes);
    return made;
}

} // namespace sluice::uroce::connect
