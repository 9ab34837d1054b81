// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/descriptor.hpp"

namespace sluice::roce::socket {
namespace {

bool is_loopback_range(const engine::Address& address) noexcept {
    return engine::is_ipv4(address) && address.gid[12] == 127;
}

// Every address of 127/8 is lo's, though it lists one only.
bool has_address(const ifaddrs& entry, const engine::Address& wanted) noexcept {
    if (entry.ifa_addr == nullptr) {
        return false;
    }
    const bool is_lo = (entry.ifa_flags & IFF_LOOPBACK) != 0;
    return from_socket_address(*entry.ifa_addr) == wanted ||
           (is_lo && is_loopback_range(wanted) && entry.ifa_addr->sa_family == AF_INET);
}

Result<NetworkDevice> describe(const char* name) {
    NetworkDevice device;
    ifreq request = {};
    std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    const Descriptor socket_fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket_fd.get() < 0 || ioctl(socket_fd.get(), SIOCGIFMTU, &request) != 0) {
        return Error::format(kind_of_errno(errno), errno, "asking for the MTU of %s: %s", name,
                             strerrordesc_np(errno));
    }
    std::copy_n(request.ifr_name, device.name.size(), device.name.begin());
    device.mtu = static_cast<std::uint32_t>(std::max(request.ifr_mtu, 0));
    device.index = if_nametoindex(name);
    return device;
}

} // namespace

bool is_link_local(const engine::Address& address) noexcept {
    return address.gid[0] == 0xfe && (address.gid[1] & 0xc0) == 0x80;
}

bool is_unicast(const engine::Address& address) noexcept {
    if (engine::is_ipv4(address)) {
        // Without "this network" 0/8, multicast 224/4 and what is reserved or broadcast above.
        return address.gid[12] != 0 && address.gid[12] < 224;
    }
    return address.gid[0] != 0xff && address != engine::Address{};
}

bool is_multicast(const engine::Address& address) noexcept {
    return engine::is_ipv4(address) ? (address.gid[12] & 0xf0) == 0xe0 : address.gid[0] == 0xff;
}

std::array<std::uint8_t, 4> ipv4_bytes(const engine::Address& address) noexcept {
    std::array<std::uint8_t, 4> bytes{};
    std::copy_n(address.gid.begin() + engine::kMappedPrefix.size(), bytes.size(), bytes.begin());
    return bytes;
}

bool is_on_loopback_network(const engine::Address& address) noexcept {
    constexpr std::uint8_t kLoopbackNet = 127;
    return engine::is_ipv4(address) && ipv4_bytes(address)[0] == kLoopbackNet;
}

engine::Address from_ipv4(const std::array<std::uint8_t, 4>& bytes) noexcept {
    engine::Address address;
    std::copy(engine::kMappedPrefix.begin(), engine::kMappedPrefix.end(), address.gid.begin());
    std::copy(bytes.begin(), bytes.end(), address.gid.begin() + engine::kMappedPrefix.size());
    return address;
}

SocketAddress to_socket_address(const engine::Address& address, std::uint16_t port, unsigned scope) noexcept {
    SocketAddress out;
    if (engine::is_ipv4(address)) {
        out.v4 = {};
        out.v4.sin_family = AF_INET;
        out.v4.sin_port = htons(port);
        const auto bytes = ipv4_bytes(address);
        std::memcpy(&out.v4.sin_addr, bytes.data(), bytes.size());
        out.bytes = sizeof out.v4;
        return out;
    }
    out.v6.sin6_family = AF_INET6;
    out.v6.sin6_port = htons(port);
    std::memcpy(&out.v6.sin6_addr, address.gid.data(), address.gid.size());
    out.v6.sin6_scope_id = is_link_local(address) ? scope : 0;
    out.bytes = sizeof out.v6;
    return out;
}

engine::Address from_socket_address(const sockaddr& from) noexcept {
    if (from.sa_family == AF_INET) {
        std::array<std::uint8_t, 4> bytes{};
        std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in&>(from).sin_addr, bytes.size());
        return from_ipv4(bytes);
    }
    engine::Address address;
    if (from.sa_family == AF_INET6) {
        std::memcpy(address.gid.data(), &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr,
                    address.gid.size());
    }
    return address;
}

AddressText to_text(const engine::Address& address) noexcept {
    AddressText text{};
    if (engine::is_ipv4(address)) {
        (void)inet_ntop(AF_INET, ipv4_bytes(address).data(), text.data(), text.size());
    } else {
        (void)inet_ntop(AF_INET6, address.gid.data(), text.data(), text.size());
    }
    return text;
}

Result<engine::Address> parse_address(std::string_view text) {
    AddressText copy{};
    if (!text.empty() && text.size() < copy.size()) {
        std::copy(text.begin(), text.end(), copy.begin());
        std::array<std::uint8_t, 4> v4{};
        if (inet_pton(AF_INET, copy.data(), v4.data()) == 1) {
            return from_ipv4(v4);
        }
        engine::Address address;
        if (inet_pton(AF_INET6, copy.data(), address.gid.data()) == 1) {
            return address;
        }
    }
    return Error::format(ErrorKind::kInvalidArgument, 0,
                         "'%.*s' is no IPv4 or IPv6 address; names are not looked up",
                         static_cast<int>(std::min<std::size_t>(text.size(), 80)), text.data());
}

Result<NetworkDevice> find_network_device(const engine::Address& address) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return Error::from_errno(errno, "listing the network interfaces");
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (has_address(*entry, address)) {
            return describe(entry->ifa_name);
        }
    }
    return Error::format(ErrorKind::kNotFound, EADDRNOTAVAIL,
                         "no interface of this network namespace has the address %s; `ip address` lists "
                         "those that there are",
                         to_text(address).data());
}

} // namespace sluice::roce::socket
