// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/udp_port.hpp"

#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "core/log.hpp"
#include "roce/socket/address_state.hpp"
#include "roce/socket/port_owner.hpp"

namespace sluice::roce::socket {
namespace {

struct Option {
    int level;
    int name;
    int value;
    const char* what;
};

Result<void> set_options(int socket_fd, std::span<const Option> options) {
    for (const Option& option : options) {
        if (setsockopt(socket_fd, option.level, option.name, &option.value, sizeof option.value) != 0) {
            return Error::format(kind_of_errno(errno), errno, "setting %s of a UDP socket: %s", option.what,
                                 strerrordesc_np(errno));
        }
    }
    return {};
}

Result<void> set_ipv4(int socket_fd) {
    constexpr Option kOptions[] = {
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, "IP_MTU_DISCOVER"},
        {IPPROTO_IP, IP_RECVTTL, 1, "IP_RECVTTL"},
        {IPPROTO_IP, IP_RECVTOS, 1, "IP_RECVTOS"},
    };
    return set_options(socket_fd, kOptions);
}

Result<void> set_ipv6(int socket_fd) {
    constexpr Option kOptions[] = {
        {IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"},
        {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, "IPV6_MTU_DISCOVER"},
        {IPPROTO_IPV6, IPV6_DONTFRAG, 1, "IPV6_DONTFRAG"},
        {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT"},
        {IPPROTO_IPV6, IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS"},
        // A peer may leave the UDP checksum out, since the ICRC is there; sockets refuse that otherwise.
        {SOL_UDP, UDP_NO_CHECK6_RX, 1, "UDP_NO_CHECK6_RX"},
    };
    return set_options(socket_fd, kOptions);
}

// Datagrams to groups leave through DEVICE. They may pass as many routers as those that rdma_cm makes paths
// for.
Result<void> send_groups_through(int socket_fd, const engine::Address& local, const NetworkDevice& device) {
    constexpr int kHops = 64;
    const int index = static_cast<int>(device.index);
    if (!engine::is_ipv4(local)) {
        const Option options[] = {
            {IPPROTO_IPV6, IPV6_MULTICAST_IF, index, "IPV6_MULTICAST_IF"},
            {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kHops, "IPV6_MULTICAST_HOPS"},
        };
        return set_options(socket_fd, options);
    }
    ip_mreqn through{};
    through.imr_ifindex = index;
    if (setsockopt(socket_fd, IPPROTO_IP, IP_MULTICAST_IF, &through, sizeof through) != 0) {
        return Error::from_errno(errno, "setting IP_MULTICAST_IF of a UDP socket");
    }
    constexpr Option kOptions[] = {{IPPROTO_IP, IP_MULTICAST_TTL, kHops, "IP_MULTICAST_TTL"}};
    return set_options(socket_fd, kOptions);
}

// What the system doesn't grant isn't an error: it costs speed only. FORCE needs privileges.
void set_buffers(int socket_fd, std::uint32_t bytes) noexcept {
    const int value = static_cast<int>(bytes);
    for (const auto& [forced, plain] :
         {std::pair{SO_RCVBUFFORCE, SO_RCVBUF}, std::pair{SO_SNDBUFFORCE, SO_SNDBUF}}) {
        if (setsockopt(socket_fd, SOL_SOCKET, forced, &value, sizeof value) != 0) {
            (void)setsockopt(socket_fd, SOL_SOCKET, plain, &value, sizeof value);
        }
    }
    const int on = 1;
    (void)setsockopt(socket_fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
}

Error port_taken(const engine::Address& local) {
    const std::string owner = describe_port_owner(FileTree(), local);
    return Error::format(
        ErrorKind::kExists, EADDRINUSE,
        "UDP port %u of %s belongs to %s; end it, or use another address: another uroceN, or "
        "one that SLUICE_UROCE names",
        wire::kRocePort, to_text(local).data(), owner.c_str());
}

} // namespace

Result<Descriptor> make_socket(const PortConfig& config, Sharing sharing) {
    const bool v4 = engine::is_ipv4(config.local);
    Descriptor socket_fd(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket_fd.get() < 0) {
        return Error::from_errno(errno, "opening a UDP socket");
    }
    Result<void> set = v4 ? set_ipv4(socket_fd.get()) : set_ipv6(socket_fd.get());
    if (!set) {
        return std::move(set).error();
    }
    set_buffers(socket_fd.get(), config.buffer_bytes);
    const int on = 1;
    if (config.use_gro && setsockopt(socket_fd.get(), SOL_UDP, UDP_GRO, &on, sizeof on) != 0) {
        SLUICE_LOG(kInfo, "uroce", "this kernel has no UDP_GRO: packets arrive one by one");
    }
    if (sharing == Sharing::kGroup &&
        setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
        return Error::format(ErrorKind::kNotSupported, errno, "processes can't share a UDP port here: %s",
                             strerrordesc_np(errno));
    }
    return socket_fd;
}

Result<void> bind_socket(int socket_fd, const engine::Address& local, const NetworkDevice& device) {
    const SocketAddress address = to_socket_address(local, wire::kRocePort, device.index);
    if (bind(socket_fd, &address.any, address.bytes) == 0) {
        return {};
    }
    if (errno == EADDRINUSE) {
        return port_taken(local);
    }
    const int reason = errno;
    const auto why = reason == EADDRNOTAVAIL ? why_unusable(FileTree(), local) : std::nullopt;
    return Error::format(kind_of_errno(reason), reason, "binding UDP port %u of %s: %s", wire::kRocePort,
                         to_text(local).data(), why ? why->c_str() : strerrordesc_np(reason));
}

Result<NetworkDevice> usable_device(const PortConfig& config) {
    if (!is_unicast(config.local)) {
        return Error::format(ErrorKind::kInvalidArgument, 0, "%s is no address of one host",
                             to_text(config.local).data());
    }
    Result<NetworkDevice> device = find_network_device(config.local);
    if (!device) {
        return std::move(device).error();
    }
    if (socket::active_mtu(device->mtu) == 0) {
        return Error::format(ErrorKind::kNotSupported, 0,
                             "%s has an MTU of %u; RoCE needs 336 for its smallest packets",
                             device->name.data(), device->mtu);
    }
    return device;
}

Result<std::unique_ptr<UdpPort>> UdpPort::open(const PortConfig& config, engine::Memory& memory) {
    const Result<NetworkDevice> device = usable_device(config);
    if (!device) {
        return device.error().clone();
    }
    Result<Descriptor> socket_fd = make_socket(config, Sharing::kNone);
    if (!socket_fd) {
        return std::move(socket_fd).error();
    }
    Result<void> bound = bind_socket(socket_fd->get(), config.local, *device);
    if (!bound) {
        return std::move(bound).error();
    }
    return on(*std::move(socket_fd), config, *device, memory);
}

std::unique_ptr<UdpPort> UdpPort::on(Descriptor socket_fd, const PortConfig& config,
                                     const NetworkDevice& device, engine::Memory& memory) {
    // Without that, datagrams to groups can't be sent, and everything else can.
    const Result<void> chosen = send_groups_through(socket_fd.get(), config.local, device);
    if (!chosen) {
        SLUICE_LOG(kInfo, "uroce", "%s: no multicast: %s", to_text(config.local).data(),
                   chosen.error().text());
    }
    int granted = 0;
    socklen_t granted_bytes = sizeof granted;
    (void)getsockopt(socket_fd.get(), SOL_SOCKET, SO_RCVBUF, &granted, &granted_bytes);
    return std::unique_ptr<UdpPort>(
        new UdpPort(std::move(socket_fd), config, device, static_cast<std::uint32_t>(granted), memory));
}

} // namespace sluice::roce::socket
