// SPDX-License-Identifier: BSD-3-Clause
//
// An eventfd that wakes the threads that poll it. A thread isn't cancelled in these calls, as it would be in
// eventfd_write() and eventfd_read().
#pragma once

#include <sys/eventfd.h>

#include "core/not_cancelled.hpp"

namespace sluice {

// FD is quieted long before it has been rung 2^64 times.
inline void ring_eventfd(int fd) noexcept {
    const NotCancelled guard;
    (void)eventfd_write(fd, 1);
}

// Whether it was rung since it was quieted last. FD doesn't wait.
inline bool quiet_eventfd(int fd) noexcept {
    const NotCancelled guard;
    eventfd_t rung = 0;
    return eventfd_read(fd, &rung) == 0;
}

} // namespace sluice
