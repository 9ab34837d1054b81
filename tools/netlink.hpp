// SPDX-License-Identifier: BSD-3-Clause
//
// The few things that `sluice run` asks the kernel for over netlink. Each throws a Failure whose
// text says what was tried, and where it is a matter of privileges or of a missing module, what to
// do; its status is then kExitNoDevice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct nl_sock;

namespace sluice::tools {

struct NetlinkSocketCloser {
    void operator()(nl_sock* socket) const noexcept;
};
using NetlinkSocket = std::unique_ptr<nl_sock, NetlinkSocketCloser>;

// The socket for PROTOCOL: NETLINK_ROUTE or NETLINK_RDMA.
NetlinkSocket connect_netlink(int protocol);

// A network interface of type dummy, up. False when the name is taken.
bool add_dummy(nl_sock* route, const std::string& name, unsigned mtu);
void add_address(nl_sock* route, unsigned interface, std::uint32_t address);
// Quiet when it is gone already.
void delete_interface(nl_sock* route, unsigned interface) noexcept;

// An rxe device on a network interface. False when the name is taken.
bool add_rxe(nl_sock* rdma, const std::string& name, const std::string& interface);
// The kernel's number for an RDMA device, which no renaming changes.
std::uint32_t rdma_index(nl_sock* rdma, const std::string& name);
void delete_rdma(nl_sock* rdma, std::uint32_t index) noexcept;

} // namespace sluice::tools
