// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for a dispatcher's events. What is there already is taken at once; only who must sleep arms the
// queue, and has its channel for itself from then on.
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "udapl/provider/evd.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

EvdAnswer Evd::begin_wait_locked(int threshold) noexcept {
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

// The next event, if there are THRESHOLD of them.
bool Evd::take_awaited_locked(std::size_t threshold, Event& event) noexcept {
    drain_locked();
    if (notifying_ < threshold) {
        return false;
    }
    event = take_locked();
    return true;
}

// Why a wait is over; nothing while it isn't. Then who waits will be told.
std::optional<EvdAnswer> Evd::end_of_wait_locked(std::size_t threshold, Event& event) noexcept {
    if (is_abandoned_) {
        return EvdAnswer::kAborted;
    }
    if (!is_waitable_) {
        return EvdAnswer::kUnwaitable;
    }
    do {
        if (take_awaited_locked(threshold, event)) {
            return EvdAnswer::kDone;
        }
    } while (arm_locked()); // what came before it was armed
    return std::nullopt;
}

// How many events are left.
int Evd::end_wait_locked() noexcept {
    const auto left = static_cast<int>(count_);
    is_waiting_ = false;
    if (arm_locked()) {
        drain_locked();
    }
    return left;
}

int Evd::queue_locked(const ibv_wc& completion) noexcept {
    is_waiting_ = true; // the CNO has nothing to do with it
    Event event;
    if (finish_locked(completion, event)) {
        push_locked(event);
    }
    drain_locked();
    is_waiting_ = false;
    return static_cast<int>(count_);
}

EvdAnswer Evd::wait_longer(std::uint32_t timeout_us, int threshold, Event& event, int& left) noexcept {
    const auto needed = static_cast<std::size_t>(threshold);
    {
        const LockGuard guard(mutex_);
        if (const EvdAnswer refused = begin_wait_locked(threshold); refused != EvdAnswer::kDone) {
            return refused;
        }
        if (const std::optional<EvdAnswer> end = end_of_wait_locked(needed, event)) {
            left = end_wait_locked();
            return *end;
        }
        fall_asleep_locked();
    }
    return sleep(deadline_ns(timeout_us), needed, event, left);
}

// While somebody sleeps on the channel, nobody else shall be woken by it.
void Evd::fall_asleep_locked() noexcept {
    is_asleep_ = true;
    watch_channel_locked(false);
}

void Evd::wake_up_locked(bool is_notified) noexcept {
    is_asleep_ = false;
    if (std::exchange(is_woken_, false)) {
        eventfd_t wakes = 0;
        (void)eventfd_read(wake_.get(), &wakes);
    }
    if (is_notified) {
        take_notification_locked();
    }
}

EvdAnswer Evd::sleep(std::uint64_t deadline, std::size_t threshold, Event& event, int& left) noexcept {
    while (true) {
        pollfd waited[2] = {{wake_.get(), POLLIN, 0}, {channel_ ? channel_->fd() : -1, POLLIN, 0}};
        timespec storage{};
        const int ready = ppoll(waited, 2, left_until(deadline, storage), nullptr);
        const bool is_interrupted = ready < 0 && errno == EINTR;
        const LockGuard guard(mutex_);
        wake_up_locked(ready > 0 && waited[1].revents != 0);
        std::optional<EvdAnswer> end = end_of_wait_locked(threshold, event);
        if (!end && (is_interrupted || ready == 0)) {
            end = is_interrupted ? EvdAnswer::kInterrupted : EvdAnswer::kTimedOut;
        }
        if (end) {
            left = end_wait_locked();
            return *end;
        }
        fall_asleep_locked();
    }
}

} // namespace sluice::dapl
