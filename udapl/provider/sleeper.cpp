// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sleeper.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "core/event_descriptor.hpp"
#include "udapl/provider/deadline.hpp"

namespace sluice::dapl {

Result<Sleeper> Sleeper::make() {
    Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.get() < 0) {
        return Error::from_errno(errno, "making a descriptor to wait on; raise `ulimit -n`");
    }
    return Sleeper(std::move(wake));
}

void Sleeper::wake() noexcept {
    if (is_asleep_ && !is_woken_) {
        is_woken_ = true;
        ring_eventfd(wake_.get());
    }
}

void Sleeper::wake_up() noexcept {
    is_asleep_ = false;
    if (std::exchange(is_woken_, false)) {
        (void)quiet_eventfd(wake_.get());
    }
}

Sleeper::End Sleeper::sleep(std::uint64_t deadline, int channel) const {
    pollfd waited[2] = {{wake_.get(), POLLIN, 0}, {channel, POLLIN, 0}};
    timespec storage{};
    const int ready = ppoll(waited, 2, left_until(deadline, storage), nullptr);
    if (ready < 0 && errno == EINTR) {
        return End::kInterrupted;
    }
    if (ready == 0) {
        return End::kTimedOut;
    }
    return waited[1].revents != 0 ? End::kNotified : End::kWoken;
}

} // namespace sluice::dapl
