// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libc's calls that wait for descriptors. A thread may be cancelled in there: nothing of
// ours is on its stack but the call itself.
#include <poll.h>

#include <ctime>
#include <span>

#include "layers/check/waits.hpp"
#include "layers/hooks/next.hpp"

namespace {

using sluice::layers::hooks::Next;

void look_at(const pollfd* descriptors, nfds_t count) noexcept {
    if (!sluice::layers::check::has_channels()) {
        return;
    }
    for (const pollfd& each : std::span(descriptors, count)) {
        if ((each.events & POLLIN) != 0 && each.fd >= 0) {
            sluice::layers::check::check_wait_for(each.fd, count == 1);
        }
    }
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
    static constinit Next<int(pollfd*, nfds_t, int)> real("poll");
    if (timeout_ms != 0) {
        look_at(descriptors, count);
    }
    return real.get()(descriptors, count, timeout_ms);
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    static constinit Next<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> real("ppoll");
    if (timeout == nullptr || timeout->tv_sec != 0 || timeout->tv_nsec != 0) {
        look_at(descriptors, count);
    }
    return real.get()(descriptors, count, timeout, mask);
}

#pragma GCC visibility pop
} // extern "C"
