// SPDX-License-Identifier: BSD-3-Clause
//
// What the kernel reports by netlink: which RDMA device is on which network interface, and the interfaces'
// addresses.
//
// Thread safety: everything may be called from any thread; each call has a socket of its own.
#pragma once

#include <string>
#include <vector>

#include "core/result.hpp"
#include "ibverbs-glue/address.hpp"

struct nlmsghdr;

namespace sluice::glue {

// A port of an RDMA device.
struct RdmaLink {
    std::string device;
    unsigned device_index = 0;
    unsigned port = 0;
    std::string netdev;        // empty: it has none, or none in this network namespace
    unsigned netdev_index = 0; // 0 as well
};

// Every port of every device that this network namespace has. kNotSupported where the kernel has no
// RDMA.
Result<std::vector<RdmaLink>> rdma_links();

struct NetdevAddress {
    unsigned netdev_index;
    std::string netdev;
    Address address;
};

// The IPv4 and IPv6 addresses of this network namespace's interfaces.
Result<std::vector<NetdevAddress>> netdev_addresses();

// One message of the kernel's answer to rdma_links(), which may be anything. kProtocol when it isn't one.
Result<RdmaLink> parse_rdma_link(const nlmsghdr* message);

} // namespace sluice::glue
