// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/multicast_port.hpp"

#include <cerrno>
#include <cstring>

#include "roce/socket/udp_port.hpp"

namespace sluice::roce::socket {

namespace {

#ifndef IPV6_MULTICAST_ALL
constexpr int IPV6_MULTICAST_ALL = 29; // since Linux 4.20
#endif

template<typename T>
bool set(int socket_fd, int level, int name, const T& value) noexcept {
    return setsockopt(socket_fd, level, name, &value, sizeof value) == 0;
}

Error failed(const char* what, const engine::Address& group) {
    return Error::format(kind_of_errno(errno), errno, "%s multicast group %s: %s", what,
                         to_text(group).data(), strerrordesc_np(errno));
}

// Groups that another socket of this host has joined aren't this socket's.
bool hear_own_groups_only(int socket_fd, bool v4) noexcept {
    const int off = 0;
    return v4 ? set(socket_fd, IPPROTO_IP, IP_MULTICAST_ALL, off)
              : set(socket_fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, off);
}

bool add_membership(int socket_fd, const SocketAddress& group, bool v4,
                    const NetworkDevice& device) noexcept {
    if (v4) {
        ip_mreqn wanted{};
        wanted.imr_multiaddr = group.v4.sin_addr;
        wanted.imr_ifindex = static_cast<int>(device.index);
        return set(socket_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, wanted);
    }
    ipv6_mreq wanted{};
    wanted.ipv6mr_multiaddr = group.v6.sin6_addr;
    wanted.ipv6mr_interface = device.index;
    return set(socket_fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, wanted);
}

} // namespace

Result<std::unique_ptr<MulticastPort>>
MulticastPort::join(const engine::Address& group, const NetworkDevice& device, PcapRecorder* recorder) {
    const bool v4 = engine::is_ipv4(group);
    Result<Descriptor> made = make_socket({.local = group, .use_gro = false}, Sharing::kNone);
    if (!made) {
        return std::move(made).error();
    }
    const int socket_fd = made->get();
    const int on = 1;
    SocketAddress address = to_socket_address(group, wire::kRocePort, device.index);
    if (!v4) {
        address.v6.sin6_scope_id = device.index;
    }
    if (!set(socket_fd, SOL_SOCKET, SO_REUSEADDR, on) || !hear_own_groups_only(socket_fd, v4) ||
        bind(socket_fd, &address.any, address.bytes) != 0) {
        return failed("binding a UDP socket to", group);
    }
    if (!add_membership(socket_fd, address, v4, device)) {
        return failed("joining", group);
    }
    return std::unique_ptr<MulticastPort>(new MulticastPort(*std::move(made), group, recorder));
}

} // namespace sluice::roce::socket
