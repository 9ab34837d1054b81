// SPDX-License-Identifier: BSD-3-Clause
#include "core/descriptor.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "core/event_descriptor.hpp"
#include "core/not_cancelled.hpp"

namespace sluice {

void close_descriptor(int fd) noexcept {
    const NotCancelled guard;
    close(fd);
}

void ring_eventfd(int fd) noexcept {
    const NotCancelled guard;
    (void)eventfd_write(fd, 1);
}

bool quiet_eventfd(int fd) noexcept {
    const NotCancelled guard;
    eventfd_t rung = 0;
    return eventfd_read(fd, &rung) == 0;
}

} // namespace sluice
