// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/loop.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace sluice::dapl {

namespace {

struct OpenLoop {
    Mutex mutex;
    std::weak_ptr<Loop> loop SLUICE_TSA(guarded_by(mutex));
};

// Never destroyed: programs close IAs as late as in their last destructor.
OpenLoop& open_loop() {
    static OpenLoop& instance = *new OpenLoop();
    return instance;
}

// Signals are for the program's threads.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept {
        sigset_t all{};
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

} // namespace

Result<std::shared_ptr<Loop>> Loop::get() {
    OpenLoop& open = open_loop();
    const LockGuard guard(open.mutex);
    if (std::shared_ptr<Loop> loop = open.loop.lock()) {
        return loop;
    }
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr; // nobody's: a task, an earlier time, or the end
    if (epoll.get() < 0 || wake.get() < 0 || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
        return Error::from_errno(errno, "making what waits for connection events");
    }
    std::shared_ptr<Loop> loop(new Loop(std::move(epoll), std::move(wake)));
    const SignalsBlocked blocked;
    {
        const LockGuard starting(loop->mutex_); // the thread looks at thread_ when it has this
        loop->thread_ = std::thread([self = loop.get()] { self->run(); });
    }
    open.loop = loop;
    return loop;
}

// The last user may be closed by a task: then the thread ends by itself, without a look at what is gone.
Loop::~Loop() {
    if (is_own_thread()) {
        *is_gone_ = true;
        thread_.detach();
        return;
    }
    {
        const LockGuard guard(mutex_);
        is_ending_ = true;
    }
    (void)eventfd_write(wake_.get(), 1);
    if (thread_.joinable()) {
        thread_.join();
    }
}

Result<void> Loop::add(int fd, Watched& watched) {
    {
        const LockGuard guard(mutex_);
        watched_.insert(&watched);
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &watched;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        Error error = Error::from_errno(errno, "waiting for events");
        const LockGuard guard(mutex_);
        watched_.erase(&watched);
        return error;
    }
    return {};
}

void Loop::remove(int fd, Watched& watched) noexcept {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    const LockGuard guard(mutex_);
    watched_.erase(&watched);
    while (serving_ == &watched && !is_own_thread()) {
        served_.wait(mutex_);
    }
    times_.erase(&watched); // which it may have set until now
}

void Loop::pause(int fd, Watched& watched, bool is_paused) noexcept {
    epoll_event event{};
    event.events = is_paused ? 0U : std::uint32_t{EPOLLIN};
    event.data.ptr = &watched;
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event); // it was added: this can't fail
}

void Loop::wake_at(Watched& watched, std::uint64_t time_ns) {
    const LockGuard guard(mutex_);
    if (time_ns == kNever) {
        times_.erase(&watched);
        return;
    }
    times_[&watched] = time_ns;
    if (!is_own_thread()) {
        (void)eventfd_write(wake_.get(), 1); // it looks at the times before it sleeps
    }
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
    (void)eventfd_write(wake_.get(), 1);
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

// For epoll_wait(), rounded up: who is woken too early would sleep again.
int Loop::time_left() noexcept {
    constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;
    constexpr std::uint64_t kLongest = INT_MAX;
    const LockGuard guard(mutex_);
    std::uint64_t first = kNever;
    for (const auto& [watched, time] : times_) {
        first = std::min(first, time);
    }
    if (first == kNever) {
        return -1;
    }
    const std::uint64_t now = now_ns();
    const std::uint64_t left = first > now ? first - now : 0;
    return static_cast<int>(
        std::min(kLongest, (left + kNanosecondsPerMillisecond - 1) / kNanosecondsPerMillisecond));
}

void Loop::serve(Watched* watched) noexcept {
    {
        const LockGuard guard(mutex_);
        if (!watched_.contains(watched)) {
            return; // removed since
        }
        serving_ = watched;
    }
    watched->on_readable();
    const LockGuard guard(mutex_);
    serving_ = nullptr;
    served_.notify_all();
}

void Loop::serve_times() noexcept {
    const std::uint64_t now = now_ns();
    while (true) {
        Watched* due = nullptr;
        {
            const LockGuard guard(mutex_);
            const auto found =
                std::ranges::find_if(times_, [now](const auto& each) { return each.second <= now; });
            if (found == times_.end()) {
                return;
            }
            serving_ = due = found->first;
            times_.erase(found);
        }
        due->on_time();
        const LockGuard guard(mutex_);
        serving_ = nullptr;
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
        auto* const watched = static_cast<Watched*>(event.data.ptr);
        if (ready == 1 && watched != nullptr) {
            serve(watched);
        } else if (ready == 1) {
            eventfd_t wakes = 0;
            (void)eventfd_read(wake_.get(), &wakes);
            const LockGuard guard(mutex_);
            if (is_ending_) {
                return;
            }
        }
        serve_times();
        if (!run_tasks()) {
            return;
        }
    }
}

} // namespace sluice::dapl
