// SPDX-License-Identifier: BSD-3-Clause
//
// sendmmsg() and recvmmsg() for a device. A layer stands before the C library's functions and takes the
// memory that they get for what the program gives to the kernel.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice {

inline int send_messages(int socket, mmsghdr* messages, unsigned count, int flags) noexcept {
    return static_cast<int>(syscall(SYS_sendmmsg, socket, messages, count, flags));
}

inline int receive_messages(int socket, mmsghdr* messages, unsigned count, int flags) noexcept {
    return static_cast<int>(syscall(SYS_recvmmsg, socket, messages, count, flags, nullptr));
}

} // namespace sluice
