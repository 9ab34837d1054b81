// SPDX-License-Identifier: BSD-3-Clause
//
// A process beside a benchmark's own.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/failure.hpp"

namespace sluice::bench {

// A process that runs SERVE with one end of a socket pair, and ends when ours is closed.
class Peer {
  public:
    template<typename Serve>
    explicit Peer(Serve serve) {
        int fds[2] = {-1, -1};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
            die("socketpair");
        }
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fds[0]);
            serve(fds[1]);
            _exit(0);
        }
        close(fds[1]);
        fd_ = fds[0];
    }
    ~Peer() {
        close(fd_);
        (void)kill(pid_, SIGTERM); // it may sit in a system call of its own
        waitpid(pid_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    int fd() const { return fd_; }

  private:
    pid_t pid_ = -1;
    int fd_ = -1;
};

template<typename T>
void tell(int fd, const T& what) {
    if (write(fd, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) {
        die("telling the other process");
    }
}

template<typename T>
T hear(int fd) {
    T what{};
    if (read(fd, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) {
        die("hearing from the other process");
    }
    return what;
}

} // namespace sluice::bench
