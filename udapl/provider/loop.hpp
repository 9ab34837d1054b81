// SPDX-License-Identifier: BSD-3-Clause
//
// The one thread of this library: it looks after descriptors that must be served without the program's
// calling, after times that pass, and does what others can't do where they are. It lives while an IA or
// a device is open.
//
// Thread safety: everything may be called from any thread, also from the loop's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "udapl/provider/deadline.hpp"

namespace sluice::dapl {

class Loop;

// Who owns a descriptor, or waits for a time.
class Watched {
  public:
    // In the loop's thread, without a lock of the loop's.
    virtual void on_readable() noexcept = 0;
    // The same, once the time has come that wake_at() was told.
    virtual void on_time() noexcept {}

  protected:
    ~Watched() = default;
};

// Something to be done soon in the loop's thread.
class Task {
  public:
    // Without a lock of the loop's. May end itself: nobody looks at it afterwards.
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

    Result<void> add(int fd, Watched& watched);
    // Waits until WATCHED isn't being served, if another thread does.
    void remove(int fd, Watched& watched) noexcept;
    // Whether FD is looked after; it is from add() on.
    void pause(int fd, Watched& watched, bool is_paused) noexcept;
    // Only for who was added. TIME: as now_ns() has it; kNever: no more. One time each, the last.
    void wake_at(Watched& watched, std::uint64_t time_ns);

    // Runs TASK once; not again for who asks before it has begun.
    void schedule(Task& task) noexcept;
    // From now on TASK doesn't run, unless this is called by itself, and nobody schedules it again.
    void cancel(Task& task) noexcept;
    // Until TASK isn't running; not where it asks itself. It may be gone.
    void await(const Task* task) noexcept;

  private:
    Loop(Descriptor epoll, Descriptor wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
    void run() noexcept;
    int time_left() noexcept;
    void serve(Watched* watched) noexcept;
    void serve_times() noexcept;
    bool run_tasks() noexcept;
    Task* next_task() noexcept;
    void await_locked(const Task* task) noexcept SLUICE_TSA(requires_capability(mutex_));
    bool is_own_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

    const Descriptor epoll_;
    const Descriptor wake_;
    Mutex mutex_;
    ConditionVariable served_;
    std::set<Watched*> watched_ SLUICE_TSA(guarded_by(mutex_));
    std::map<Watched*, std::uint64_t> times_ SLUICE_TSA(guarded_by(mutex_));
    Task* first_task_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Task* last_task_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Watched* serving_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    Task* running_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;
    bool is_ending_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool* is_gone_ = nullptr; // where the loop's thread learns that a task of its own has ended it
    std::thread thread_;      // the last: it uses the others
};

} // namespace sluice::dapl
