// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/waiter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <cerrno>

#include "core/event_descriptor.hpp"
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

Result<std::optional<glue::ConnectionEvent>> Waiter::next(glue::ConnectionService& service) const {
    Result<std::optional<glue::ConnectionEvent>> event = service.next_event();
    if (event && !event->has_value() && loss_ >= 0 && quiet_eventfd(loss_)) {
        return std::optional(glue::ConnectionEvent{glue::ConnectionEventKind::kFailed, nullptr, ETIMEDOUT});
    }
    return event;
}

int sleep_on(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) != 0) {
        return flags < 0 ? errno : EAGAIN;
    }
    pollfd wanted{fd, POLLIN, 0};
    return poll(&wanted, 1, -1) < 0 ? errno : 0;
}

} // namespace sluice::rpma
