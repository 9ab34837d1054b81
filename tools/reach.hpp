// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace sluice::tools {

// How uroce reaches other processes of this user and host, as far as this process's own rights and settings
// tell.
struct Reach {
    bool is_direct;     // Writes, Reads and atomic operations are executed on the peer's memory
    bool has_rings;     // packets go through memory, and not over UDP
    std::string reason; // why not; empty if both are so
};

// Tries it, with a child.
Reach find_reach();

} // namespace sluice::tools
