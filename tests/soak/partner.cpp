// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/partner.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace sluice::test::soak {

Partner::Partner() {
    int fds[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        fail_with_errno("socketpair");
    }
    const int theirs = fcntl(fds[1], F_DUPFD, 3); // this one outlives exec
    close(fds[1]);
    std::string number = std::to_string(theirs);
    std::string self = "/proc/self/exe";
    std::string option = "--partner";
    char* const arguments[] = {self.data(), option.data(), number.data(), nullptr};
    must_be_zero(posix_spawn(&pid_, self.c_str(), nullptr, nullptr, arguments, environ), "posix_spawn");
    close(theirs);
    fd_ = fds[0];
}

Partner::~Partner() {
    close(fd_);
    if (pid_ > 0) {
        waitpid(pid_, nullptr, 0);
    }
}

void Partner::kill() {
    int status = 0;
    must_be_zero(::kill(pid_, SIGKILL), "kill");
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        fail("the partner ended with status 0x%x before it was killed", static_cast<unsigned>(status));
    }
    pid_ = -1;
}

void Partner::stop() {
    int status = 0;
    must_be_zero(::kill(pid_, SIGSTOP), "kill with SIGSTOP");
    if (waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) {
        fail("the partner ended with status 0x%x before it was stopped", static_cast<unsigned>(status));
    }
}

void Partner::go_on() {
    must_be_zero(::kill(pid_, SIGCONT), "kill with SIGCONT");
}

void Partner::tell_end() {
    int status = 0;
    constexpr int kTries = 100; // the socket's end may come a little earlier
    for (int i = 0; i < kTries && pid_ > 0; ++i) {
        if (waitpid(pid_, &status, WNOHANG) == pid_) {
            pid_ = -1;
            std::fprintf(stderr, "soak: step %llu: the partner ended by %s %d\n",
                         static_cast<unsigned long long>(place().step),
                         WIFSIGNALED(status) ? "signal" : "itself, with status",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        (void)poll(nullptr, 0, 1);
    }
}

} // namespace sluice::test::soak
