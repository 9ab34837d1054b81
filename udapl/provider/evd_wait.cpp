// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for a dispatcher's events.
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "udapl/provider/evd.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

EvdAnswer Evd::begin_wait(int threshold) noexcept {
    const LockGuard guard(mutex_);
    if (threshold <= 0 || static_cast<std::size_t>(threshold) > length_) {
        return EvdAnswer::kBadThreshold;
    }
    if (!is_waitable_) {
        return EvdAnswer::kUnwaitable;
    }
    if (threshold > 1 && model_ != EvdModel::kEach) {
        return EvdAnswer::kNoThreshold;
    }
    if (is_waiting_) {
        return EvdAnswer::kHasWaiter;
    }
    is_waiting_ = true;
    return EvdAnswer::kDone;
}

EvdAnswer Evd::wait(std::uint32_t timeout_us, int threshold, Event& event, int& left) noexcept {
    if (const EvdAnswer refused = begin_wait(threshold); refused != EvdAnswer::kDone) {
        return refused;
    }
    const EvdAnswer answer = wait_for(timeout_us, static_cast<std::size_t>(threshold), event, left);
    const LockGuard guard(mutex_);
    is_waiting_ = false;
    if (completions_ && arm_locked()) {
        drain_locked();
    }
    return answer;
}

// Why a wait is over; nothing while it isn't.
std::optional<EvdAnswer> Evd::end_of_wait_locked(std::size_t threshold, Event& event, int& left) noexcept {
    eventfd_t wakes = 0;
    (void)eventfd_read(wake_.get(), &wakes); // what they told is looked at now
    serve_locked(threshold);
    if (is_abandoned_) {
        return EvdAnswer::kAborted;
    }
    if (!is_waitable_) {
        return EvdAnswer::kUnwaitable;
    }
    if (notifying_ < threshold) {
        return std::nullopt;
    }
    event = take_locked();
    left = static_cast<int>(count_);
    return EvdAnswer::kDone;
}

// While somebody sleeps on the channel, nobody else shall be woken by it.
void Evd::look_after(bool is_ours) noexcept {
    if (channel_) {
        ia().loop().pause(channel_->fd(), *this, is_ours);
    }
}

EvdAnswer Evd::wait_for(std::uint32_t timeout_us, std::size_t threshold, Event& event, int& left) noexcept {
    const std::uint64_t deadline = deadline_ns(timeout_us);
    bool is_ours = false;
    std::optional<EvdAnswer> last; // unless there is something after all
    while (true) {
        std::optional<EvdAnswer> end;
        {
            const LockGuard guard(mutex_);
            end = end_of_wait_locked(threshold, event, left);
            if (!end && last) {
                left = static_cast<int>(count_);
                end = last;
            }
        }
        if (end) {
            if (is_ours) {
                look_after(false);
            }
            return *end;
        }
        if (!is_ours) {
            look_after(true);
            is_ours = true;
        }
        pollfd waited[2] = {{wake_.get(), POLLIN, 0}, {channel_ ? channel_->fd() : -1, POLLIN, 0}};
        timespec storage{};
        const int ready = ppoll(waited, 2, left_until(deadline, storage), nullptr);
        if (ready < 0 && errno == EINTR) {
            last = EvdAnswer::kInterrupted;
        } else if (ready == 0) {
            last = EvdAnswer::kTimedOut;
        }
    }
}

} // namespace sluice::dapl
