// SPDX-License-Identifier: BSD-3-Clause
//
// Who has UDP port 4791 of an address: one address has one such port, and whoever can't have it
// should learn from whom to get it back.
#pragma once

#include <optional>
#include <string>

#include "core/file_tree.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

// In words for an error's text: "process 4711 (qemu)", "the kernel's rdma_rxe, ...". TREE is this
// machine, or a recorded one. None: nobody whom the kernel shows.
std::optional<std::string> find_port_owner(const FileTree& tree, const engine::Address& address);
// The same for somebody who couldn't have it, and so knows that there is somebody.
std::string describe_port_owner(const FileTree& tree, const engine::Address& address);

} // namespace sluice::roce::socket
