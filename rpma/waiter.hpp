// SPDX-License-Identifier: BSD-3-Clause
//
// The descriptor of a connection or an endpoint that programs poll and may set O_NONBLOCK on. It is an epoll
// descriptor around that of the service, which works in a way of its own and is always polled.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include "core/descriptor.hpp"
#include "ibverbs-glue/connection.hpp"

namespace sluice::rpma {

class Waiter {
  public:
    // Both outlive it. LOSS is an eventfd, or -1: no loss is watched.
    static Result<Waiter> make(int fd, int loss);

    int fd() const noexcept { return epoll_.get(); }
    // The next event of SERVICE, whose descriptor it is around; kFailed when a loss was told. Nothing when
    // there is none.
    Result<std::optional<glue::ConnectionEvent>> next(glue::ConnectionService& service) const;

  private:
    Waiter(Descriptor epoll, int loss) noexcept : epoll_(std::move(epoll)), loss_(loss) {}

    Descriptor epoll_;
    int loss_;
};

// Until FD, a Waiter's, may have something: 0, or an errno; EAGAIN when the program doesn't want to wait. The
// thread may be cancelled while it sleeps.
int sleep_on(int fd);

} // namespace sluice::rpma
