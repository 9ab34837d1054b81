// SPDX-License-Identifier: BSD-3-Clause
//
// The process that has UDP port 4791 of an address: one address has one such port, and an error names
// the process to stop.
#pragma once

#include <optional>
#include <string>

#include "core/file_tree.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

// In words for an error's text: "process 4711 (qemu)", "the kernel's rdma_rxe, ...". TREE is this
// machine, or a recorded one. None: the kernel shows no holder.
std::optional<std::string> find_port_owner(const FileTree& tree, const engine::Address& address);
// The same after a bind that failed, so that there is a holder.
std::string describe_port_owner(const FileTree& tree, const engine::Address& address);
// Whether the kernel shows that nobody has the port. False also where it shows nothing.
bool is_port_free(const FileTree& tree, const engine::Address& address);
// Whether rdma_rxe is the holder: then no process can have the port for as long as the kernel's device is
// there.
bool is_kernels_port(const FileTree& tree, const engine::Address& address);

} // namespace sluice::roce::socket
