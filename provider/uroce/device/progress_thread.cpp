// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/progress_thread.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "core/event_descriptor.hpp"
#include "core/thread.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// Twice what it takes to fall asleep and be woken again.
constexpr engine::Nanoseconds kBusyNs = 50'000;
// How long packets may lie there after a program has stopped polling, at first and when it has polled for
// long: each look takes the program's core for a moment.
constexpr engine::Nanoseconds kShortestPauseNs = 500'000;
constexpr engine::Nanoseconds kLongestPauseNs = 4'000'000;
// Between the polls of a program that takes what comes for another of its threads, which sleeps.
constexpr engine::Nanoseconds kBetweenPollsNs = 10'000;
// A program that polls all the time has done so within the first, unless another one has its core; the second
// is longer than most programs lose that for.
constexpr engine::Nanoseconds kPollsCeasedNs = 4'000;
constexpr engine::Nanoseconds kPollsCeasedForLongNs = 100'000;
// A program that waits for bytes in its memory polls, too, and takes some packets itself.
constexpr int kWakeups = 64;
// Nothing here calls a program, so that little is needed.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

engine::Nanoseconds read_clock(clockid_t clock) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<engine::Nanoseconds>(now.tv_sec) * kSecond +
           static_cast<engine::Nanoseconds>(now.tv_nsec);
}

void close_if_open(int& fd) noexcept {
    if (fd >= 0) {
        close(fd);
        fd = -1;
    }
}

} // namespace

engine::Nanoseconds monotonic_now() noexcept {
    return read_clock(CLOCK_MONOTONIC);
}

engine::Nanoseconds coarse_now() noexcept {
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

ProgressThread::~ProgressThread() {
    if (running_) {
        stopping_ = true;
        ring_eventfd(stop_);
        pthread_join(thread_, nullptr);
    }
    close_all();
}

void ProgressThread::close_all() noexcept {
    close_if_open(epoll_);
    close_if_open(timer_);
    close_if_open(stop_);
    close_if_open(nudge_);
}

Result<void> ProgressThread::start(int link_fd, int bell_fd) {
    const LockGuard guard(starting_);
    if (running_) {
        return {};
    }
    Result<void> started = start_locked(link_fd, bell_fd);
    if (!started) {
        close_all();
    }
    return started;
}

Result<void> ProgressThread::watch(int fd) const {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
        return Error::from_errno(errno, "can't watch a descriptor for the device's progress");
    }
    return {};
}

Result<void> ProgressThread::watch_also(int fd) {
    const LockGuard guard(starting_);
    return watch(fd);
}

Result<void> ProgressThread::start_locked(int link_fd, int bell_fd) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    nudge_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || timer_ < 0 || stop_ < 0 || nudge_ < 0) {
        return Error::from_errno(errno, "no descriptors for a device's progress; raise `ulimit -n`");
    }
    for (const int fd : {timer_, stop_, link_fd, bell_fd}) {
        if (fd >= 0) {
            Result<void> watched = watch(fd);
            if (!watched) {
                return watched;
            }
        }
    }
    has_link_ = link_fd >= 0;
    const int error = start_quiet_thread(thread_, "uroce", kStackBytes, run, this);
    if (error != 0) {
        return Error::from_errno(error, "no thread for a device's progress; raise `ulimit -u`");
    }
    running_ = true;
    return {};
}

void ProgressThread::wake_at(engine::Nanoseconds when) noexcept {
    if (!running_) {
        return;
    }
    const itimerspec at{.it_interval = {},
                        .it_value = {.tv_sec = static_cast<time_t>(when / kSecond),
                                     .tv_nsec = static_cast<long>(when % kSecond)}};
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr);
}

// Partner: wait_while_polled(), which asks after it has set the mark.
void ProgressThread::program_may_sleep() const noexcept {
    if (watches_polls()) {
        ring_eventfd(nudge_);
    }
}

void* ProgressThread::run(void* self) noexcept {
    static_cast<ProgressThread*>(self)->loop();
    return nullptr;
}

void ProgressThread::loop() noexcept {
    while (!stopping_) {
        epoll_event events[4];
        const int timeout = client_.fall_asleep() ? -1 : 0;
        if (epoll_wait(epoll_, events, 4, timeout) < 0 && errno != EINTR) {
            return;
        }
        drain_timer();
        if (wakeups_left_ > 0) {
            take_what_comes();
            continue;
        }
        client_.make_progress();
        if (has_link_) {
            look_while_busy();
            wait_while_polled();
        }
    }
}

void ProgressThread::drain_timer() const noexcept {
    std::uint64_t expirations = 0;
    (void)!read(timer_, &expirations, sizeof expirations);
}

void ProgressThread::drain_nudges() const noexcept {
    (void)quiet_eventfd(nudge_);
}

void ProgressThread::look_while_busy() noexcept {
    const std::uint64_t polls = client_.polls();
    engine::Nanoseconds last = monotonic_now();
    for (engine::Nanoseconds now = last; now - last < kBusyNs && !stopping_ && client_.polls() == polls;
         now = monotonic_now()) {
        if (client_.try_progress()) {
            last = now;
        } else {
            cpu_relax();
        }
    }
}

// Not every poll of the program's looks at the link. Where there has been none for a while, nobody else
// takes what comes.
void ProgressThread::look_at_what_polls_left() noexcept {
    const bool have_polls_ceased = client_.since_last_poll() > kPollsCeasedForLongNs;
    if (client_.try_progress() && have_polls_ceased) {
        wakeups_left_ = kWakeups;
    }
}

void ProgressThread::take_what_comes() noexcept {
    const bool have_polls_ceased = client_.since_last_poll() > kPollsCeasedNs;
    wakeups_left_ = client_.make_progress() && have_polls_ceased ? kWakeups : wakeups_left_ - 1;
}

void ProgressThread::wait_while_polled() noexcept {
    std::uint64_t before = last_polls_;
    last_polls_ = client_.polls();
    watches_polls_.store(last_polls_ != before, std::memory_order_seq_cst);
    timespec pause{.tv_sec = 0, .tv_nsec = kShortestPauseNs};
    while (last_polls_ != before && wakeups_left_ == 0 && !client_.may_sleep() && !stopping_) {
        before = last_polls_;
        pollfd fds[] = {{.fd = timer_, .events = POLLIN, .revents = 0},
                        {.fd = nudge_, .events = POLLIN, .revents = 0},
                        {.fd = stop_, .events = POLLIN, .revents = 0}};
        if (ppoll(fds, 3, &pause, nullptr) > 0) {
            drain_nudges();
            if (fds[0].revents != 0) {
                drain_timer();
                client_.make_progress();
            }
        }
        look_at_what_polls_left();
        last_polls_ = client_.polls();
        if (last_polls_ - before < static_cast<std::uint64_t>(pause.tv_nsec) / kBetweenPollsNs) {
            client_.polls_are_seldom();
        }
        pause.tv_nsec = std::min<long>(2 * pause.tv_nsec, kLongestPauseNs);
    }
    // Partner: Device::hold_back().
    watches_polls_.store(false, std::memory_order_seq_cst);
    if (client_.has_held_back()) {
        client_.make_progress();
    }
}

} // namespace sluice::uroce::device
