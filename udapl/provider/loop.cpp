// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/loop.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/event_descriptor.hpp"
#include "core/thread.hpp"
#include "udapl/provider/of_process.hpp"

namespace sluice::dapl {

namespace {

struct OpenLoop {
    Mutex mutex;
    std::weak_ptr<Loop> loop SLUICE_TSA(guarded_by(mutex));
};

OfProcess<OpenLoop>& open_loop() {
    static OfProcess<OpenLoop> instance;
    return instance;
}

[[gnu::constructor]] void renew_loop_in_children() noexcept {
    (void)open_loop(); // made while there is one thread
    pthread_atfork(nullptr, nullptr, [] { open_loop().renew(); });
}

} // namespace

Result<std::shared_ptr<Loop>> Loop::get() {
    OpenLoop& open = open_loop().get();
    const LockGuard guard(open.mutex);
    if (std::shared_ptr<Loop> loop = open.loop.lock()) {
        return loop;
    }
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr; // no handler's: a task, an earlier time, or the end
    if (epoll.get() < 0 || wake.get() < 0 || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
        return Error::from_errno(
            errno, "making the descriptors of the thread that waits for events; raise `ulimit -n`");
    }
    std::shared_ptr<Loop> loop(new Loop(std::move(epoll), std::move(wake)));
    if (Result<void> started = loop->start(); !started) {
        return std::move(started).error();
    }
    open.loop = loop;
    return loop;
}

// Agents run there: they get as much of a stack as in any other thread.
Result<void> Loop::start() {
    const auto body = [](void* self) -> void* {
        static_cast<Loop*>(self)->run();
        return nullptr;
    };
    const LockGuard starting(mutex_); // the thread looks at thread_ when it has this
    const int error = start_quiet_thread(thread_, "dapl-sluice", 0, body, this);
    if (error != 0) {
        return Error::from_errno(error, "starting the thread that waits for events; raise `ulimit -u`");
    }
    is_started_ = true;
    return {};
}

// The last user may be closed by a task: then the thread ends by itself, without a look at what is gone.
Loop::~Loop() {
    if (!is_started_) {
        return;
    }
    if (is_own_thread()) {
        *is_gone_ = true;
        pthread_detach(thread_);
        return;
    }
    {
        const LockGuard guard(mutex_);
        is_ending_ = true;
    }
    ring_eventfd(wake_.get());
    pthread_join(thread_, nullptr);
}

Result<void> Loop::add(int fd, DescriptorHandler& handler) {
    {
        const LockGuard guard(mutex_);
        handlers_.insert(&handler);
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &handler;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        Error error = Error::from_errno(errno, "waiting for events");
        const LockGuard guard(mutex_);
        handlers_.erase(&handler);
        return error;
    }
    return {};
}

void Loop::remove(int fd, DescriptorHandler& handler) noexcept {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    const LockGuard guard(mutex_);
    handlers_.erase(&handler);
    while (serving_ == &handler && !is_own_thread()) {
        served_.wait(mutex_);
    }
}

void Loop::pause(int fd, DescriptorHandler& handler, bool is_paused) noexcept {
    epoll_event event{};
    event.events = is_paused ? 0U : std::uint32_t{EPOLLIN};
    event.data.ptr = &handler;
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event); // it was added: this can't fail
}

void Loop::set_due_locked(Timer& timer, std::uint64_t time_ns) {
    if (time_ns != kNever) {
        times_.insert({time_ns, &timer}); // first, since it may throw
    }
    if (timer.due != time_ns) {
        times_.erase({timer.due, &timer});
        timer.due = time_ns;
    }
}

void Loop::wake_at(Timer& timer, std::uint64_t time_ns) {
    const LockGuard guard(mutex_);
    set_due_locked(timer, time_ns);
    if (time_ns != kNever && times_.begin()->first == time_ns && !is_own_thread()) {
        ring_eventfd(wake_.get()); // it looks at the times before it sleeps
    }
}

void Loop::cancel(Timer& timer) noexcept {
    const LockGuard guard(mutex_);
    set_due_locked(timer, kNever);
    while (called_ == &timer && !is_own_thread()) {
        served_.wait(mutex_);
    }
    set_due_locked(timer, kNever); // it may have set a time until now
}

void Loop::schedule(Task& task) noexcept {
    const LockGuard guard(mutex_);
    if (task.link.is_scheduled) {
        return;
    }
    task.link.is_scheduled = true;
    task.link.next = nullptr;
    (last_task_ != nullptr ? last_task_->link.next : first_task_) = &task;
    last_task_ = &task;
    ring_eventfd(wake_.get());
}

void Loop::cancel(Task& task) noexcept {
    const LockGuard guard(mutex_);
    Task* before = nullptr;
    for (Task* each = first_task_; each != nullptr; before = each, each = each->link.next) {
        if (each == &task) {
            (before != nullptr ? before->link.next : first_task_) = task.link.next;
            last_task_ = last_task_ == &task ? before : last_task_;
            break;
        }
    }
    task.link.is_scheduled = false;
    await_locked(&task);
}

void Loop::await(const Task* task) noexcept {
    const LockGuard guard(mutex_);
    await_locked(task);
}

void Loop::await_locked(const Task* task) noexcept {
    while (running_ == task && !is_own_thread()) {
        served_.wait(mutex_);
    }
}

// For epoll_wait(), rounded up: after too short a sleep the loop would sleep again.
int Loop::time_left() noexcept {
    constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;
    constexpr std::uint64_t kLongest = INT_MAX;
    const LockGuard guard(mutex_);
    const std::uint64_t first = times_.empty() ? kNever : times_.begin()->first;
    if (first == kNever) {
        return -1;
    }
    const std::uint64_t now = now_ns();
    const std::uint64_t left = first > now ? first - now : 0;
    return static_cast<int>(
        std::min(kLongest, (left + kNanosecondsPerMillisecond - 1) / kNanosecondsPerMillisecond));
}

void Loop::serve(DescriptorHandler* handler) noexcept {
    {
        const LockGuard guard(mutex_);
        if (!handlers_.contains(handler)) {
            return; // removed since
        }
        serving_ = handler;
    }
    handler->on_readable();
    const LockGuard guard(mutex_);
    serving_ = nullptr;
    served_.notify_all();
}

void Loop::call_timers() noexcept {
    const std::uint64_t now = now_ns();
    while (true) {
        Timer* due = nullptr;
        {
            const LockGuard guard(mutex_);
            if (times_.empty() || times_.begin()->first > now) {
                return;
            }
            called_ = due = times_.begin()->second;
            set_due_locked(*due, kNever);
        }
        due->on_time();
        const LockGuard guard(mutex_);
        called_ = nullptr;
        served_.notify_all();
    }
}

Task* Loop::next_task() noexcept {
    const LockGuard guard(mutex_);
    running_ = first_task_;
    if (running_ != nullptr) {
        first_task_ = running_->link.next;
        last_task_ = first_task_ != nullptr ? last_task_ : nullptr;
        running_->link.is_scheduled = false;
    }
    return running_;
}

// False: the loop is gone.
bool Loop::run_tasks() noexcept {
    bool is_gone = false;
    is_gone_ = &is_gone;
    while (Task* const task = next_task()) {
        task->run();
        if (is_gone) {
            return false;
        }
        const LockGuard guard(mutex_);
        running_ = nullptr;
        served_.notify_all();
    }
    return true;
}

void Loop::run() noexcept {
    while (true) {
        epoll_event event{};
        const int ready = epoll_wait(epoll_.get(), &event, 1, time_left());
        auto* const handler = static_cast<DescriptorHandler*>(event.data.ptr);
        if (ready == 1 && handler != nullptr) {
            serve(handler);
        } else if (ready == 1) {
            (void)quiet_eventfd(wake_.get());
            const LockGuard guard(mutex_);
            if (is_ending_) {
                return;
            }
        }
        call_timers();
        if (!run_tasks()) {
            return;
        }
    }
}

} // namespace sluice::dapl
