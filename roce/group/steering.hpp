// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's side of sharing an address: which of the group's sockets gets a datagram.
//
// The program looks at the destination queue pair number, as Share does; in a message for queue pair 1, at
// the id that the receiver has given the connection. So a connection's messages and its data wait in one
// queue, in the order in which they were sent. Socket N + 1 gets what falls on share N. Socket 0 is the
// common one: it gets a request, which names no id of the receiver's, and what is neither a message nor data.
// A share without a socket leaves the choice to the kernel, and the process that gets such a packet drops it.
#pragma once

#include "core/result.hpp"
#include "roce/engine/share.hpp"

namespace sluice::roce::group {

// SOCKET_FD is one of a SO_REUSEPORT group; the program is the whole group's.
Result<void> steer(int socket_fd, const engine::Share::Words& words);

} // namespace sluice::roce::group
