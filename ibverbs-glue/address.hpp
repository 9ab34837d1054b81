// SPDX-License-Identifier: BSD-3-Clause
//
// An IPv4 or IPv6 address with a port, by value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.hpp"

namespace sluice::glue {

class Address {
  public:
    Address() noexcept = default; // of no family
    // Copies what is there of ADDRESS; an unknown family gives kNotSupported.
    static Result<Address> from(const sockaddr* address) noexcept;
    // In numbers, without a port; nothing for what isn't an address.
    static std::optional<Address> from_text(const char* text) noexcept;
    // The bytes of an address as netlink and GIDs have them: 4 or 16.
    static Address ipv4(const void* bytes, std::uint16_t port = 0) noexcept;
    static Address ipv6(const void* bytes, std::uint32_t scope_id = 0, std::uint16_t port = 0) noexcept;

    int family() const noexcept { return storage_.sin6_family; }
    // 127.0.0.0/8, where uroce's devices are when nobody says otherwise.
    bool is_loopback() const noexcept;
    bool is_set() const noexcept { return family() != AF_UNSPEC; }
    std::uint16_t port() const noexcept; // in the host's order
    Address with_port(std::uint16_t port) const noexcept;

    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
    // librdmacm takes addresses that it doesn't change through pointers that would allow it.
    sockaddr* for_rdma_cm() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }
    socklen_t size() const noexcept;

    // The same host; ports are not compared.
    bool is_same_host(const Address& other) const noexcept;
    std::string to_string() const; // without the port

  private:
    // The longest that it can be, and not a sockaddr_storage: endpoints and connections have several.
    sockaddr_in6 storage_{};
};

} // namespace sluice::glue
