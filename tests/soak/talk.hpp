// SPDX-License-Identifier: BSD-3-Clause
//
// How the two processes of a step agree about what doesn't go over the device.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <type_traits>

#include "tests/soak/failure.hpp"

namespace sluice::test::soak {

// One end of a pair of SOCK_SEQPACKET, which keeps messages apart. Doesn't own it.
class Talk {
  public:
    explicit Talk(int fd) : fd_(fd) {}

    int fd() const { return fd_; }

    template<typename T>
    void tell(const T& what) const {
        static_assert(std::is_trivially_copyable_v<T>);
        if (write(fd_, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) {
            fail_with_errno("telling the other process");
        }
    }
    template<typename T>
    T hear() const {
        Patience patience(kLongest, "the other process says nothing");
        while (!has_something(kLookMs)) {
            patience.look();
        }
        const std::optional<T> what = hear_or_end<T>();
        if (!what) {
            fail("the other process has ended");
        }
        return *what;
    }
    // Waits without end.
    template<typename T>
    std::optional<T> hear_or_end() const {
        T what{};
        const ssize_t bytes = read(fd_, &what, sizeof what);
        if (bytes == 0) {
            return std::nullopt;
        }
        if (bytes != static_cast<ssize_t>(sizeof what)) {
            fail_with_errno("hearing from the other process");
        }
        return what;
    }
    // Or its end.
    bool has_something(int timeout_ms) const {
        pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
        return poll(&waiting, 1, timeout_ms) > 0;
    }
    // Returns when both are here.
    void meet(char where) const {
        tell(where);
        const char there = hear<char>();
        if (there != where) {
            fail("the other process is at '%c', and this one at '%c'", there, where);
        }
    }

  private:
    static constexpr int kLookMs = 10;
    static constexpr std::chrono::milliseconds kLongest{200000};
    int fd_;
};

} // namespace sluice::test::soak
