// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses as programs give them to the connection service.
#pragma once

#include <sys/socket.h>

#include "core/result.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/cm/types.hpp"

namespace sluice::uroce::connect {

struct Endpoint {
    engine::Address address;
    std::uint16_t port = 0;
};

// EAFNOSUPPORT for other families than IPv4 and IPv6.
Result<Endpoint> to_endpoint(const sockaddr& address);
// "Any", of either family.
bool is_wildcard(const engine::Address& address) noexcept;
sockaddr_storage to_sockaddr(const engine::Address& address, std::uint16_t port) noexcept;

} // namespace sluice::uroce::connect
