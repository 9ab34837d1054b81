// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace sluice::glue {

namespace {

socklen_t size_of(int family) noexcept {
    switch (family) {
    case AF_INET:
        return sizeof(sockaddr_in);
    case AF_INET6:
        return sizeof(sockaddr_in6);
    default:
        return 0;
    }
}

template<typename T>
T as(const sockaddr_in6& storage) noexcept {
    static_assert(sizeof(T) <= sizeof storage);
    T address{};
    std::memcpy(&address, &storage, sizeof address);
    return address;
}

} // namespace

Result<Address> Address::from(const sockaddr* address) noexcept {
    const socklen_t size = address == nullptr ? 0 : size_of(address->sa_family);
    if (size == 0) {
        return Error(ErrorKind::kNotSupported, "the address is neither IPv4 nor IPv6", EAFNOSUPPORT);
    }
    Address copy;
    std::memcpy(&copy.storage_, address, size);
    return copy;
}

std::optional<Address> Address::from_text(const char* text) noexcept {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    if (getaddrinfo(text, nullptr, &hints, &found) != 0) {
        return std::nullopt;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    const Result<Address> address = from(found->ai_addr);
    return address ? std::optional(*address) : std::nullopt;
}

Address Address::ipv4(const void* bytes, std::uint16_t port) noexcept {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, bytes, sizeof in.sin_addr);
    Address address;
    std::memcpy(&address.storage_, &in, sizeof in);
    return address;
}

Address Address::ipv6(const void* bytes, std::uint32_t scope_id, std::uint16_t port) noexcept {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, bytes, sizeof in.sin6_addr);
    in.sin6_scope_id = scope_id;
    Address address;
    std::memcpy(&address.storage_, &in, sizeof in);
    return address;
}

std::uint16_t Address::port() const noexcept {
    // The same place in both families.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    return is_set() ? ntohs(as<sockaddr_in>(storage_).sin_port) : std::uint16_t{0};
}

Address Address::with_port(std::uint16_t port) const noexcept {
    Address copy = *this;
    if (is_set()) {
        auto in = as<sockaddr_in>(storage_);
        in.sin_port = htons(port);
        std::memcpy(&copy.storage_, &in, sizeof in);
    }
    return copy;
}

bool Address::is_loopback() const noexcept {
    constexpr std::uint32_t kLoopbackNet = 127;
    return family() == AF_INET && ntohl(as<sockaddr_in>(storage_).sin_addr.s_addr) >> 24 == kLoopbackNet;
}

socklen_t Address::size() const noexcept {
    return size_of(family());
}

bool Address::is_same_host(const Address& other) const noexcept {
    if (family() != other.family()) {
        return false;
    }
    if (family() == AF_INET) {
        return as<sockaddr_in>(storage_).sin_addr.s_addr == as<sockaddr_in>(other.storage_).sin_addr.s_addr;
    }
    const auto ours = as<sockaddr_in6>(storage_);
    const auto theirs = as<sockaddr_in6>(other.storage_);
    return std::memcmp(&ours.sin6_addr, &theirs.sin6_addr, sizeof ours.sin6_addr) == 0 &&
           ours.sin6_scope_id == theirs.sin6_scope_id;
}

std::string Address::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (family() == AF_INET) {
        const auto in = as<sockaddr_in>(storage_);
        inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    } else if (family() == AF_INET6) {
        const auto in = as<sockaddr_in6>(storage_);
        inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
    }
    return text.data();
}

} // namespace sluice::glue
