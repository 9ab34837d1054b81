// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's side of sharing an address: which of the group's sockets gets a datagram.
//
// The program looks at the destination queue pair number, as Share does. Socket 0 is the common one: it gets
// what is for queue pair 1, and what is too short to be a packet. Socket N + 1 gets what falls on share N. A
// share without a socket leaves the choice to the kernel, and the process that gets such a packet drops it.
#pragma once

#include "core/result.hpp"
#include "roce/engine/share.hpp"

namespace sluice::roce::group {

// SOCKET_FD is one of a SO_REUSEPORT group; the program is the whole group's.
Result<void> steer(int socket_fd, const engine::Share::Words& words);

} // namespace sluice::roce::group
