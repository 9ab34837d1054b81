// SPDX-License-Identifier: BSD-3-Clause
//
// How the programs of the lab's reach tests end when something isn't as it should be: one line that
// says which side it was, at what, and why.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace reach {

// What this process is doing now.
struct Place {
    std::string side;
    std::string step;
};
inline Place& place() {
    static Place the_place;
    return the_place;
}

[[noreturn]] inline void die(const std::string& what) {
    std::printf("FAILED: %s, %s: %s\n", place().side.c_str(), place().step.c_str(), what.c_str());
    std::fflush(stdout);
    _exit(1);
}

inline void require(bool holds, const std::string& what) {
    if (!holds) {
        die(what);
    }
}

// For calls that set errno.
inline void succeed(bool succeeded, const std::string& what) {
    if (!succeeded) {
        die(what + ": " + std::strerror(errno));
    }
}

// For calls that return an errno.
inline void no_error(int error, const std::string& what) {
    errno = error;
    succeed(error == 0, what);
}

template<typename T>
void equal(T actual, T wanted, const std::string& what) {
    if (actual != wanted) {
        die(what + " is " + std::to_string(actual) + ", and should be " + std::to_string(wanted));
    }
}

inline void status_is(const ibv_wc& wc, ibv_wc_status wanted, const std::string& what) {
    if (wc.status != wanted) {
        die(what + ": status '" + ibv_wc_status_str(wc.status) + "', and should be '" +
            ibv_wc_status_str(wanted) + "' (request " + std::to_string(wc.wr_id) + ", vendor error " +
            std::to_string(wc.vendor_err) + ")");
    }
}

// The two processes' way to agree, which no network can disturb.
class Talk {
  public:
    explicit Talk(int fd) : fd_(fd) {}

    template<typename T>
    void tell(const T& what) const {
        require(send(fd_, &what, sizeof what, MSG_NOSIGNAL) == sizeof what, "the other side has ended");
    }
    template<typename T>
    T hear() const {
        T what{};
        require(recv(fd_, &what, sizeof what, 0) == sizeof what, "the other side has ended");
        return what;
    }
    template<typename T>
    T swap(const T& mine) const {
        tell(mine);
        return hear<T>();
    }
    // Both are here now.
    void meet() const { (void)swap('m'); }

  private:
    int fd_;
};

} // namespace reach
