// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/waiter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "ibverbs-glue/adaptors.hpp"

namespace sluice::rpma {

namespace {

Result<int> watch(const Descriptor& epoll, int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    return glue::from_minus_one(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &wanted),
                                "making a descriptor for events");
}

} // namespace

Result<Waiter> Waiter::make(int fd, int loss) {
    Result<int> made = glue::from_minus_one(epoll_create1(EPOLL_CLOEXEC), "making a descriptor for events");
    if (!made) {
        return std::move(made).error();
    }
    Descriptor epoll(*made);
    Result<int> added = watch(epoll, fd);
    if (added && loss >= 0) {
        added = watch(epoll, loss);
    }
    if (!added) {
        return std::move(added).error();
    }
    return Waiter(std::move(epoll), loss);
}

Result<bool> Waiter::wait() const {
    Result<int> flags = glue::from_minus_one(fcntl(fd(), F_GETFL), "asking for a descriptor's flags");
    if (!flags) {
        return std::move(flags).error();
    }
    if ((*flags & O_NONBLOCK) != 0) {
        return false;
    }
    pollfd wanted{fd(), POLLIN, 0};
    Result<int> ready = glue::from_minus_one(poll(&wanted, 1, -1), "waiting for an event");
    if (!ready && ready.error().os_errno() != EINTR) {
        return std::move(ready).error();
    }
    return ready.ok();
}

Result<std::optional<glue::ConnectionEvent>> Waiter::next(glue::ConnectionService& service) const {
    while (true) {
        Result<std::optional<glue::ConnectionEvent>> event = service.next_event();
        if (!event || event->has_value()) {
            return event;
        }
        eventfd_t losses = 0;
        if (loss_ >= 0 && eventfd_read(loss_, &losses) == 0) {
            return std::optional(
                glue::ConnectionEvent{glue::ConnectionEventKind::kFailed, nullptr, ETIMEDOUT});
        }
        Result<bool> again = wait();
        if (!again) {
            return std::move(again).error();
        }
        if (!*again) {
            return std::optional<glue::ConnectionEvent>();
        }
    }
}

} // namespace sluice::rpma
