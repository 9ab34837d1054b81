// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's calls that wait for descriptors. A thread may be cancelled in there: nothing of
// ours is on its stack but the call itself, and nothing is cancelled while one of them is looked at.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <span>

#include "core/not_cancelled.hpp"
#include "layers/check/waits.hpp"
#include "layers/hooks/next.hpp"

namespace {

namespace check = sluice::layers::check;
using sluice::NotCancelled;
using sluice::layers::hooks::Next;

// By its number, as what poll() gets is declared as memory that it only writes to: the compiler would warn of
// reading it.
void look_at(std::uintptr_t address, nfds_t count) noexcept {
    const NotCancelled guard;
    if (!check::may_wait_in_vain()) {
        return;
    }
    const auto* const descriptors =
        reinterpret_cast<const pollfd*>(address); // NOLINT(performance-no-int-to-ptr)
    for (const pollfd& each : std::span(descriptors, count)) {
        if ((each.events & POLLIN) != 0 && each.fd >= 0) {
            check::check_wait_for(each.fd, {.is_alone = count == 1});
        }
    }
}

int count_in(const fd_set* set, int end) noexcept {
    int count = 0;
    for (int fd = 0; set != nullptr && fd < end; ++fd) {
        count += FD_ISSET(fd, set) ? 1 : 0;
    }
    return count;
}

struct Sets {
    const fd_set* read = nullptr;
    const fd_set* write = nullptr;
    const fd_set* except = nullptr;
};

// Of a larger set, which the kernel doesn't look through either where no descriptor has such a number, the
// first ones are looked at.
void look_at(int end, const Sets& sets) noexcept {
    const NotCancelled guard;
    end = std::min(end, FD_SETSIZE);
    if (sets.read == nullptr || !check::may_wait_in_vain()) {
        return;
    }
    const bool is_alone =
        count_in(sets.read, end) + count_in(sets.write, end) + count_in(sets.except, end) == 1;
    for (int fd = 0; fd < end; ++fd) {
        if (FD_ISSET(fd, sets.read)) {
            check::check_wait_for(fd, {.is_alone = is_alone});
        }
    }
}

void look_at(int epoll) noexcept {
    const NotCancelled guard;
    if (check::may_wait_in_vain()) {
        check::check_wait_in(epoll);
    }
}

// Null means without an end, as in all these calls.
bool is_to_wait(const timespec* timeout) noexcept {
    return timeout == nullptr || timeout->tv_sec != 0 || timeout->tv_nsec != 0;
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
    static constinit Next<int(pollfd*, nfds_t, int)> real("poll");
    if (timeout_ms != 0) {
        look_at(reinterpret_cast<std::uintptr_t>(descriptors), count);
    }
    return real.get()(descriptors, count, timeout_ms);
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    static constinit Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> real("ppoll");
    if (is_to_wait(timeout)) {
        look_at(reinterpret_cast<std::uintptr_t>(descriptors), count);
    }
    return real.get()(descriptors, count, timeout, mask);
}

// What a compiler that knows the array's size makes of poll() and ppoll().
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming):
// glibc's names
int __poll_chk(pollfd* descriptors, nfds_t count, int timeout_ms, size_t bytes) {
    static constinit Next<int(pollfd*, nfds_t, int, size_t)> real("__poll_chk");
    if (timeout_ms != 0 && count <= bytes / sizeof(pollfd)) {
        look_at(reinterpret_cast<std::uintptr_t>(descriptors), count);
    }
    return real.get()(descriptors, count, timeout_ms, bytes);
}

int __ppoll_chk(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask,
                size_t bytes) {
    static constinit Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t)> real("__ppoll_chk");
    if (is_to_wait(timeout) && count <= bytes / sizeof(pollfd)) {
        look_at(reinterpret_cast<std::uintptr_t>(descriptors), count);
    }
    return real.get()(descriptors, count, timeout, mask, bytes);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

int select(int end, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
    static constinit Next<int(int, fd_set*, fd_set*, fd_set*, timeval*)> real("select");
    if (timeout == nullptr || timeout->tv_sec != 0 || timeout->tv_usec != 0) {
        look_at(end, {.read = read, .write = write, .except = except});
    }
    return real.get()(end, read, write, except, timeout);
}

int pselect(int end, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
            const sigset_t* mask) {
    static constinit Next<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> real(
        "pselect");
    if (is_to_wait(timeout)) {
        look_at(end, {.read = read, .write = write, .except = except});
    }
    return real.get()(end, read, write, except, timeout, mask);
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
    static constinit Next<int(int, epoll_event*, int, int)> real("epoll_wait");
    if (timeout_ms != 0) {
        look_at(epoll);
    }
    return real.get()(epoll, events, most, timeout_ms);
}

int epoll_pwait(int epoll, epoll_event* events, int most, int timeout_ms, const sigset_t* mask) {
    static constinit Next<int(int, epoll_event*, int, int, const sigset_t*)> real("epoll_pwait");
    if (timeout_ms != 0) {
        look_at(epoll);
    }
    return real.get()(epoll, events, most, timeout_ms, mask);
}

int epoll_pwait2(int epoll, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask) {
    static constinit Next<int(int, epoll_event*, int, const timespec*, const sigset_t*)> real("epoll_pwait2");
    if (is_to_wait(timeout)) {
        look_at(epoll);
    }
    return real.call(-1, epoll, events, most, timeout, mask); // older C libraries have none
}

#pragma GCC visibility pop
} // extern "C"
