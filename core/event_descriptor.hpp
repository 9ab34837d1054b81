// SPDX-License-Identifier: BSD-3-Clause
//
// An eventfd that wakes the threads that poll it. A thread isn't cancelled in these calls, as it would be in
// eventfd_write() and eventfd_read().
#pragma once

namespace sluice {

// FD is quieted long before it has been rung 2^64 times.
void ring_eventfd(int fd) noexcept;

// Whether it was rung since it was quieted last. FD doesn't wait.
bool quiet_eventfd(int fd) noexcept;

} // namespace sluice
