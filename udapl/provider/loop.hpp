// SPDX-License-Identifier: BSD-3-Clause
//
// The one thread of this library. It serves descriptors while the program doesn't call, calls timers, and
// runs tasks for threads that can't do them because of their locks. It lives while an IA or a device is open.
//
// Thread safety: everything may be called from any thread, also from the loop's own.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "udapl/provider/deadline.hpp"

namespace sluice::dapl {

class Loop;

// Serves a descriptor.
class DescriptorHandler {
  public:
    // In the loop's thread, without a lock of the loop's.
    virtual void on_readable() noexcept = 0;

  protected:
    ~DescriptorHandler() = default;
};

// Is called once at the time that Loop::wake_at() was given.
class Timer {
  public:
    // In the loop's thread, without a lock of the loop's.
    virtual void on_time() noexcept = 0;

    std::uint64_t due = UINT64_MAX; // the loop's own, under its lock

  protected:
    ~Timer() = default;
};

// Something to be done soon in the loop's thread.
class Task {
  public:
    // Without a lock of the loop's. It may destroy the task: the loop doesn't use that afterwards.
    virtual void run() noexcept = 0;

    // The loop's own, under its lock.
    struct Link {
        Task* next = nullptr;
        bool is_scheduled = false;
    };
    Link link;

  protected:
    ~Task() = default;
};

class Loop : public std::enable_shared_from_this<Loop> {
  public:
    // The process' own; made for the first user, gone with the last.
    static Result<std::shared_ptr<Loop>> get();
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    Result<void> add(int fd, DescriptorHandler& handler);
    // Waits until HANDLER has returned, unless it is the caller.
    void remove(int fd, DescriptorHandler& handler) noexcept;
    // Whether FD is served; it is from add() on.
    void pause(int fd, DescriptorHandler& handler, bool is_paused) noexcept;
    // TIME: as now_ns() has it; kNever: no more, and then nothing is allocated. A timer has one time, the
    // last.
    void wake_at(Timer& timer, std::uint64_t time_ns);
    // From now on TIMER isn't called, unless a time is set again. Waits until it has returned, unless it is
    // the caller.
    void cancel(Timer& timer) noexcept;

    // Runs TASK once, also where this is called again before it has begun.
    void schedule(Task& task) noexcept;
    // From now on TASK doesn't run, unless it is the caller or is scheduled again.
    void cancel(Task& task) noexcept;
    // Waits until TASK isn't running, unless it is the caller. TASK may be gone.
    void await(const Task* task) noexcept;
    // Whether that is the caller.
    bool is_own_thread() const noexcept { return pthread_equal(pthread_self(), thread_) != 0; }

  private:
    Loop(Descriptor epoll, Descriptor wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
    Result<void> start();
    void run() noexcept;
    int time_left() noexcept;
    void serve(DescriptorHandler* handler) noexcept;
    void call_timers() noexcept;
    void set_due_locked(Timer& timer, std::uint64_t time_ns) SLUICE_TSA(requires_capability(mutex_));
    bool run_tasks() noexcept;
    Task* next_task() noexcept;
    void await_locked(const Task* task) noexcept SLUICE_TSA(requires_capability(mutex_));

    const Descriptor epoll_;
    const Descriptor wake_;
    Mutex mutex_;
    ConditionVariable served_;
    std::set<DescriptorHandler*> handlers_ SLUICE_TSA(guarded_by(mutex_));
    std::set<std::pair<std::uint64_t, Timer*>> times_ SLUICE_TSA(guarded_by(mutex_));
    Task* first_task_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Task* last_task_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    DescriptorHandler* serving_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Timer* called_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Task* running_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    bool is_ending_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool* is_gone_ = nullptr; // where the loop's thread learns that a task of its own has ended it
    bool is_started_ = false;
    pthread_t thread_{};
};

} // namespace sluice::dapl
