// SPDX-License-Identifier: BSD-3-Clause
//
// Why no socket can be bound to an address that an interface has: before IPv6 uses one it asks the link
// whether another host has it (RFC 4862).
#pragma once

#include <optional>
#include <string>

#include "core/file_tree.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

// In words for an error's text, with what to do. TREE is this machine, or a recorded one. None: it isn't
// that.
std::optional<std::string> why_unusable(const FileTree& tree, const engine::Address& address);

} // namespace sluice::roce::socket
