// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/bell.hpp"

#include <sys/socket.h>

#include "core/not_cancelled.hpp"

namespace sluice::roce::near {

Bell::Bell() noexcept {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0) {
        own_ = Descriptor(ends[0]);
        far_ = Descriptor(ends[1]);
    }
}

void Bell::quiet() noexcept {
    const NotCancelled guard;
    char ring = 0;
    while (recv(own_.get(), &ring, sizeof ring, MSG_DONTWAIT) > 0) {
    }
}

void Bell::abandon() noexcept {
    own_.reset();
    far_.reset();
}

// What is no socket refuses it. One that is full has been rung.
void Bell::ring(const Descriptor& far_end) noexcept {
    const NotCancelled guard;
    const char ring = 1;
    (void)send(far_end.get(), &ring, sizeof ring, MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace sluice::roce::near
