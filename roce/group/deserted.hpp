// SPDX-License-Identifier: BSD-3-Clause
//
// The sockets of seats that nobody has. They stay in the kernel's group, and get what is for the dead: each
// member reads them, so that somebody answers a message about a connection that the dead had. The process
// that takes the seat is given what a member has read of it meanwhile.
//
// Thread safety: none; the group's thread alone has it, once that runs.
#pragma once

#include <memory>
#include <vector>

#include "roce/socket/receiver.hpp"

namespace sluice::roce::group {

class Deserted {
  public:
    // SOCKET_FD, of LOCAL, until remove(). Twice is once. May throw bad_alloc.
    void add(int socket_fd, const engine::Address& local, socket::PcapRecorder* recorder);
    void remove(int socket_fd) noexcept;
    // Null: SOCKET_FD is none of them.
    socket::Receiver* find(int socket_fd) const noexcept;

  private:
    struct One {
        int socket_fd;
        std::unique_ptr<socket::Receiver> receiver;
    };
    std::vector<One> all_;
};

} // namespace sluice::roce::group
