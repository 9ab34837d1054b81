// SPDX-License-Identifier: BSD-3-Clause
//
// The network interfaces that are devices by themselves (ADR 64): those of this network namespace that are
// up and have an address, the loopback interface excepted, which is uroce0.
#pragma once

#include <string>
#include <vector>

#include "core/file_tree.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::device {

struct Interface {
    std::string name;
    unsigned index = 0;
    // IPv4 first, then IPv6 with link-local ones last; each in the kernel's order.
    std::vector<engine::Address> addresses{};
};

// In the order of their indices. Without those that have a device of the kernel's, unless they are asked for.
enum class Kernels : bool { kExcluded, kIncluded };
Result<std::vector<Interface>> list_interfaces(Kernels kernels);

// Of the interface INDEX, up or not, in the same order.
Result<std::vector<engine::Address>> addresses_of_interface(unsigned index);

// Whether a device of the kernel's sends and receives on the interface: an adapter, or siw. For rdma_rxe the
// holder of the UDP port is the better sign.
bool has_kernel_device(const FileTree& tree, const std::string& interface);

} // namespace sluice::uroce::device
