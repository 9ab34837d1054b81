// SPDX-License-Identifier: BSD-3-Clause
//
// A process beside the test's own, with a device of its own, and a way to agree with it.
#pragma once

#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <functional>

#include "tests/unit/uroce/opened.hpp"

namespace sluice::uroce::test {

// What the sides tell each other before they can talk over the device.
struct Card {
    union ibv_gid gid;
    std::uint64_t addr;
    std::uint32_t qpn;
    std::uint32_t rkey;
};

class Talk {
  public:
    explicit Talk(int fd) : fd_(fd) {}

    template<typename T>
    void tell(const T& what) const {
        assert_int_equal(write(fd_, &what, sizeof what), sizeof what);
    }
    template<typename T>
    T hear() const {
        T what{};
        assert_int_equal(read(fd_, &what, sizeof what), sizeof what);
        return what;
    }
    void wait_for_end() const {
        char said = 0;
        while (read(fd_, &said, sizeof said) > 0) {
        }
    }
    Card swap_cards(const End& end) const {
        tell(Card{end.gid, end.addr(), end.qp->qp_num, end.mr->rkey});
        return hear<Card>();
    }

  private:
    int fd_;
};

// Runs OTHER in a process of its own, which nothing was opened in before, and RUN here.
class OtherProcess {
  public:
    explicit OtherProcess(const std::function<void(const Talk&)>& other) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds_), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // who waits for a test that was killed waits for good
            close(fds_[0]);
            other(Talk(fds_[1])); // an assertion that fails here ends with a signal, or another status
            _exit(0);
        }
        close(fds_[1]);
    }
    ~OtherProcess() { close(fds_[0]); }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    Talk talk() const { return Talk(fds_[0]); }
    pid_t pid() const { return pid_; }
    // Stopped are all its threads, when this returns.
    void stop() const {
        int status = 0;
        assert_int_equal(kill(pid_, SIGSTOP), 0);
        assert_int_equal(waitpid(pid_, &status, WUNTRACED), pid_);
    }
    int wait_for_end() const {
        int status = -1;
        assert_int_equal(waitpid(pid_, &status, 0), pid_);
        return status;
    }

  private:
    int fds_[2] = {-1, -1};
    pid_t pid_ = -1;
};

} // namespace sluice::uroce::test
