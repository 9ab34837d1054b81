// SPDX-License-Identifier: BSD-3-Clause
//
// How a device goes on: who takes what has arrived, what then happens, and who is woken.
#include "provider/uroce/device/device.hpp"

#include <algorithm>
#include <utility>

#include "core/ticks.hpp"
#include "provider/uroce/device/pump.hpp"

namespace sluice::uroce::device {

namespace {

// When to try again to send what a full socket didn't take: some packets' time on a wire.
constexpr engine::Nanoseconds kFullLinkNs = 50'000;
// What a process that ends waits for another thread of its own.
constexpr engine::Nanoseconds kLongestGoodbyeNs = 20'000'000;
// A look at the link is a system call, which takes longer than all else of a poll. A program that polls makes
// it each time while something comes or leaves there, and after 200 microseconds of silence once in two. As
// soon as a process of this host may send through memory, it does so once in so many polls, and once in 20
// microseconds. It looks at the time then, too.
constexpr std::uint64_t kPollsPerLook = 8;
constexpr std::uint64_t kSilenceIn20us = 10;
constexpr std::uint64_t kLooksIn20us = 10;
// A program that has polled so often since it armed a queue polls others instead of waiting for that one: a
// millisecond of polls, more than programs poll before they sleep (ADR 113).
constexpr std::uint64_t kPollsOfTheAwake = 16384;

} // namespace

bool Device::make_progress() noexcept {
    const bool any = take_from_link(false);
    const ProgressSession session(*this);
    (void)engine_.release_acks();
    if (same_host_ != nullptr) {
        same_host_->wake_up();
        rings_due_ = true;
    }
    wake_at_.store(engine::kNever,
                   std::memory_order_relaxed); // the timer has fired: arm_timer() sets it anew
    link_full_ = false;
    timer_fired_ = true;
    return any;
}

engine::Nanoseconds Device::since_last_poll() const noexcept {
    constexpr std::uint64_t kNsPerUnit = 20'000;
    const std::uint64_t last = last_poll_.load(std::memory_order_relaxed);
    const std::uint64_t now = ticks();
    return now > last ? (now - last) * kNsPerUnit / ticks_of_20us() : 0; // cores' counters may differ
}

// A program that polls looks at the link itself, and a thread of ours beside it would only take its
// core away: that one goes by the count.
bool Device::poll_progress() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (held_back_.load(std::memory_order_relaxed) && lock_.try_lock()) {
        (void)engine_.release_acks();
        progress_and_unlock();
    }
    bool any = take_from_rings(true);
    const std::uint64_t now = ticks();
    last_poll_.store(now, std::memory_order_relaxed);
    if (is_look_due(now)) {
        last_look_.store(now, std::memory_order_relaxed);
        if (take_from_link(true)) {
            last_traffic_.store(now, std::memory_order_relaxed);
            any = true;
        }
        advance_if_due();
    }
    return any;
}

bool Device::is_look_due(std::uint64_t now) const noexcept {
    const bool has_rings = same_host_ != nullptr && same_host_->has_rings();
    if (now - last_traffic_.load(std::memory_order_relaxed) < kSilenceIn20us * ticks_of_20us()) {
        return !has_rings || polls() % kPollsPerLook == 0;
    }
    return now - last_look_.load(std::memory_order_relaxed) >=
           (has_rings ? ticks_of_20us() : ticks_of_20us() / kLooksIn20us);
}

bool Device::fall_asleep() noexcept {
    if (same_host_ == nullptr) {
        return true;
    }
    const ProgressSession session(*this);
    return same_host_->fall_asleep();
}

// The thread that has the device's lock reads what peers of this host have written; no other one waits for
// it.
bool Device::take_from_rings(bool polled) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (same_host_ == nullptr || !same_host_->has_rings() || !lock_.try_lock()) {
        return false;
    }
    const bool has_news = same_host_->has_news();
    if (!has_news && lock_.try_unlock()) {
        return false;
    }
    rings_due_ = has_news;
    polled_ = polled;
    Pump(*this).run(); // a note is looked for: try_unlock() has taken it off
    return has_news;
}

void Device::advance_if_due() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (wake_at_.load(std::memory_order_relaxed) <= coarse_now() && lock_.try_lock()) {
        link_full_ = false;
        timer_fired_ = true;
        Pump(*this).run();
    }
}

// Packets are taken and checked without the device's lock, and delivered by the thread that has it next: us,
// or the thread that holds it now and finds our note. Only then may the next ones be taken.
bool Device::take_from_link(bool polled) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (link_ == nullptr || link_taken_.load(std::memory_order_relaxed) ||
        link_taken_.exchange(true, std::memory_order_acquire)) { // partner: release in read_link()
        return false;
    }
    if (!link_->fetch()) {
        link_taken_.store(false, std::memory_order_release);
        return false;
    }
    link_fetched_.store(true, std::memory_order_release); // partner: acquire in read_link()
    if (lock_.leave_note()) {
        polled_ = polled;
        progress_and_unlock();
    }
    return true;
}

void Device::read_link(const engine::Moment& now) noexcept {
    // Partner: release in take_from_link().
    if (link_fetched_.load(std::memory_order_relaxed) &&
        link_fetched_.exchange(false, std::memory_order_acquire)) {
        link_time_ = &now;
        link_->deliver(*this);
        link_taken_.store(false, std::memory_order_release); // partner: acquire in take_from_link()
    }
}

void Device::progress_and_unlock() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    if (!has_work()) {
        polled_ = false;
        if (lock_.try_unlock()) {
            return;
        }
    }
    Pump(*this).run();
}

// What a call that gave the engine nothing to do needn't look at again: deadlines for which the timer is set,
// and acknowledgements of which it is known that they wait.
bool Device::has_work() const noexcept {
    return engine_.has_ready() || (engine_.owes_acks() && !held_back_.load(std::memory_order_relaxed)) ||
           engine_.next_deadline() < wake_at_.load(std::memory_order_relaxed) || queues_failed_ ||
           batch_open_ || wakeups_ != nullptr || rings_due_ || instrumentation_.faults != nullptr ||
           link_fetched_.load(std::memory_order_relaxed);
}

// Whoever changes what acknowledgements go by first sends those that wait.
void Device::lock(Purpose purpose) noexcept SLUICE_TSA(no_thread_safety_analysis) {
    lock_.lock();
    if (purpose == Purpose::kChange && engine_.release_acks()) {
        Pump(*this).run_and_keep_first();
    }
}

bool Device::end_work() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    end_failed_queues();
    if (instrumentation_.recorder != nullptr) {
        instrumentation_.recorder->flush(); // the program may be killed next, or crash over what has come
    }
    wake_programs();
    arm_timer();
    polled_ = timer_fired_ = false;
    return lock_.try_unlock();
}

void Device::work(Pump& pump) noexcept {
    read_inbox(pump.now());
    read_rings(pump.now());
    read_link(pump.now());
    if (is_due(pump)) {
        engine_.advance(pump.now());
    }
    if (DeviceFaults* const faults = instrumentation_.faults.get()) {
        faults->release_queues(pump.now());
        while (faults->delayed().release(out_, pump.now())) {
            deliver(pump, false);
        }
    }
    do {
        transmit(pump);
        flush_link();
    } while (!link_full_ && engine_.settle()); // what a full link holds hasn't left
    wake_programs();
}

// Those that the progress thread's timer or a poll has found. The answer is the pump's own time, which
// stands: by a clock that goes on, it would have work without end.
bool Device::is_due(const Pump& pump) const noexcept {
    return timer_fired_ && engine_.next_deadline() <= pump.now();
}

// A program that polls and finds a message is likely to answer it: what says only that it came waits for the
// program's next call.
void Device::transmit(Pump& pump) noexcept {
    transmit_with(pump, polled_ ? Acks::kHold : Acks::kSend);
    if (engine_.owes_acks() && !hold_back()) {
        transmit_with(pump, Acks::kSend);
    }
    if (!engine_.owes_acks()) {
        held_back_.store(false, std::memory_order_relaxed);
    }
}

void Device::transmit_with(Pump& pump, Acks acks) noexcept {
    while (engine_.transmit(out_, pump.now(), acks)) {
        dispatch(pump);
    }
}

void Device::flush_link() noexcept {
    if (batch_open_ && !link_full_) {
        last_traffic_.store(ticks(), std::memory_order_relaxed); // answers may come
        batch_open_ = link_full_ = !link_->flush();
    }
}

// Only while the progress thread will look: either it sees our mark when it stops doing so, or we see that
// it has stopped. Partner: the pair of accesses at the end of ProgressThread::wait_while_polled().
bool Device::hold_back() noexcept {
    held_back_.store(true, std::memory_order_seq_cst);
    return progress_.watches_polls();
}

// 10.10: a completion queue that has lost completions takes its queue pairs with it. The engine
// can't do that when it happens, in the middle of another one.
void Device::end_failed_queues() noexcept {
    if (!queues_failed_) {
        return;
    }
    queues_failed_ = false;
    engine_.for_each([](engine::QueuePair& qp) {
        if (qp.has_failed_queue()) {
            (void)qp.modify(engine::QpState::kError, {});
        }
    });
}

void Device::arm_timer() noexcept {
    engine::Nanoseconds next = engine_.next_deadline();
    if (link_full_) {
        next = std::min(next, monotonic_now() + kFullLinkNs);
    }
    if (instrumentation_.faults != nullptr) {
        next = std::min(next, instrumentation_.faults->next_deadline());
    }
    if (next < wake_at_.load(std::memory_order_relaxed)) {
        wake_at_.store(next, std::memory_order_relaxed);
        progress_.wake_at(next);
    }
}

void Device::wake_later(Wakeup& wakeup) noexcept {
    if (!wakeup.waits_) {
        wakeup.waits_ = true;
        wakeup.next_ = nullptr;
        *wakeups_end_ = &wakeup;
        wakeups_end_ = &wakeup.next_;
    }
}

void Device::wake_programs() noexcept {
    while (wakeups_ != nullptr) {
        Wakeup& wakeup = *std::exchange(wakeups_, wakeups_->next_);
        if (wakeups_ == nullptr) {
            wakeups_end_ = &wakeups_;
        }
        wakeup.waits_ = false;
        wakeup.wake_(wakeup);
    }
}

// Partner: ProgressThread::wait_while_polled(), which asks may_sleep() after it has set its mark.
void Device::queue_armed() noexcept {
    polls_when_armed_.store(polls(), std::memory_order_relaxed);
    (void)armed_queues_.fetch_add(1, std::memory_order_seq_cst);
    progress_.program_may_sleep();
}

bool Device::may_sleep() const noexcept {
    return armed_queues_.load(std::memory_order_seq_cst) > 0 &&
           polls() < polls_when_armed_.load(std::memory_order_relaxed) + kPollsOfTheAwake;
}

// Unless another one is armed meanwhile.
void Device::polls_are_seldom() noexcept {
    std::uint64_t last = polls_when_armed_.load(std::memory_order_relaxed);
    polls_when_armed_.compare_exchange_strong(last, polls(), std::memory_order_relaxed);
}

// Whoever holds the lock may be the thread that ends the process, interrupted by a signal.
void Device::send_rest() noexcept SLUICE_TSA(no_thread_safety_analysis) {
    const engine::Nanoseconds end = monotonic_now() + kLongestGoodbyeNs;
    while (!poisoned() && monotonic_now() < end) {
        if (lock_.try_lock()) {
            (void)engine_.release_acks();
            progress_and_unlock();
            return;
        }
        sched_yield();
    }
}

} // namespace sluice::uroce::device
