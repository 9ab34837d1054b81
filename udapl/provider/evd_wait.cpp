// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for a dispatcher's events. Events that are there already are taken at once; only a thread that must
// sleep arms the completion queue, and has its channel for itself from then on.
#include "udapl/provider/deadline.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/threshold_check.hpp"

namespace sluice::dapl {

EvdAnswer Evd::begin_wait_locked(int threshold) noexcept {
    if (threshold <= 0 || static_cast<std::size_t>(threshold) > queue_.ring_locked().length()) {
        return EvdAnswer::kBadThreshold;
    }
    if (!is_waitable_) {
        return EvdAnswer::kUnwaitable;
    }
    if (threshold > 1 && queue_.source_locked().model() != NotifyModel::kEach) {
        return EvdAnswer::kNoThreshold;
    }
    if (queue_.has_waiter_locked()) {
        return EvdAnswer::kHasWaiter;
    }
    queue_.set_waiter_locked(true);
    return EvdAnswer::kDone;
}

// The reason for the end of a wait; none while it goes on, and then the thread will be woken.
std::optional<EvdAnswer> Evd::end_of_wait_locked(std::size_t threshold, Event& event) noexcept {
    if (is_abandoned_) {
        return EvdAnswer::kAborted;
    }
    if (is_dismissed_) {
        return EvdAnswer::kUnwaitable;
    }
    do {
        queue_.drain_locked();
        if (queue_.ring_locked().notifying() >= threshold) {
            (void)queue_.take_locked(nullptr, event); // there is one
            return EvdAnswer::kDone;
        }
    } while (queue_.arm_locked()); // completions that came before it was armed
    return std::nullopt;
}

// How many events are left.
int Evd::end_wait_locked() noexcept {
    const auto left = static_cast<int>(queue_.ring_locked().count());
    queue_.set_waiter_locked(false);
    is_dismissed_ = false;
    if (queue_.arm_locked()) {
        queue_.drain_locked();
    }
    return left;
}

int Evd::queue_locked(const ibv_wc& completion) noexcept {
    queue_.set_waiter_locked(true); // these events don't trigger the CNO
    queue_.queue_locked(completion);
    queue_.set_waiter_locked(false);
    return static_cast<int>(queue_.ring_locked().count());
}

EvdAnswer Evd::wait_longer(std::uint32_t timeout_us, int threshold, Event& event, int& left) {
    const auto needed = static_cast<std::size_t>(threshold);
    int channel = -1;
    std::uint32_t silent_before = 0;
    {
        const LockGuard guard(queue_.lock());
        if (const EvdAnswer refused = begin_wait_locked(threshold); refused != EvdAnswer::kDone) {
            return refused;
        }
        silent_before = queue_.silent_locked();
        if (const std::optional<EvdAnswer> end = end_of_wait_locked(needed, event)) {
            left = end_wait_locked();
            return *end;
        }
        channel = fall_asleep_locked();
    }
    const EvdAnswer answer = sleep(deadline_ns(timeout_us), channel, needed, event, left);
    if (answer == EvdAnswer::kTimedOut && needed > 1) {
        look_at_threshold(needed, silent_before);
    }
    return answer;
}

void Evd::look_at_threshold(std::size_t threshold, std::uint32_t silent_before) noexcept {
    std::size_t there = 0;
    std::uint32_t silent = 0;
    {
        const LockGuard guard(queue_.lock());
        there = queue_.ring_locked().notifying();
        silent = queue_.silent_locked() - silent_before;
    }
    check_threshold(threshold, there, silent);
}

// The loop's thread isn't woken by the channel while another sleeps on it.
int Evd::fall_asleep_locked() noexcept {
    sleeper_.fall_asleep();
    return queue_.lend_channel_locked();
}

// Its thread was cancelled.
void Evd::give_up_wait() noexcept {
    const LockGuard guard(queue_.lock());
    sleeper_.wake_up();
    (void)end_wait_locked();
}

EvdAnswer Evd::sleep(std::uint64_t deadline, int channel, std::size_t threshold, Event& event, int& left) {
    while (true) {
        Sleeper::End slept{};
        try {
            slept = sleeper_.sleep(deadline, channel); // without the lock
        } catch (...) {
            give_up_wait();
            throw;
        }
        const LockGuard guard(queue_.lock());
        sleeper_.wake_up();
        if (slept == Sleeper::End::kNotified) {
            queue_.take_notification_locked();
        }
        std::optional<EvdAnswer> end = end_of_wait_locked(threshold, event);
        if (!end && slept == Sleeper::End::kInterrupted) {
            end = EvdAnswer::kInterrupted;
        } else if (!end && slept == Sleeper::End::kTimedOut) {
            end = EvdAnswer::kTimedOut;
        }
        if (end) {
            left = end_wait_locked();
            return *end;
        }
        fall_asleep_locked();
    }
}

} // namespace sluice::dapl
