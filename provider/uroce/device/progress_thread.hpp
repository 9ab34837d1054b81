// SPDX-License-Identifier: BSD-3-Clause
//
// Makes a device go on when nobody calls it: at deadlines, and when its link or a process of this host has
// something.
//
// It sleeps in epoll. While a link has traffic it looks again and again for a moment instead, because
// a peer that only writes to memory gets no other help, and waking up costs more than the packet.
// While the program polls for completions, which makes progress as well, the thread leaves the link
// to it and the core free: it looks once a fraction of a millisecond whether that is still so. A program that
// polls for some completions and then waits for bytes in its memory leaves packets in the link meanwhile:
// once the thread has found one there, it takes them as they come (ADR 67).
//
// It is started for the first queue pair that can send or receive, so that an idle context costs
// nothing.
#pragma once

#include <pthread.h>

#include <atomic>

#include "core/result.hpp"
#include "core/sync.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::device {

// CLOCK_MONOTONIC.
engine::Nanoseconds monotonic_now() noexcept;
// The same clock as the kernel's last tick left it: some milliseconds late, and never a hardware access,
// which on machines without a stable TSC costs more than everything else that an empty poll does.
engine::Nanoseconds coarse_now() noexcept;

class ProgressThread {
  public:
    // What the thread serves. All are called from the thread, without a lock.
    class Client {
      public:
        // True: the link had something.
        virtual bool make_progress() noexcept = 0;
        // The same, unless another thread is at it; never waits. True: something arrived.
        virtual bool try_progress() noexcept = 0;
        // Whether acknowledgements wait for the program's next poll.
        virtual bool has_held_back() const noexcept = 0;
        // The program's polls of empty queues so far.
        virtual std::uint64_t polls() const noexcept = 0;
        // The time since the last of those, roughly.
        virtual engine::Nanoseconds since_last_poll() const noexcept = 0;
        // The thread is about to sleep until something happens to a descriptor. False: it has to go on.
        virtual bool fall_asleep() noexcept = 0;
        // Whether the program wants to be woken by a completion: then it won't poll for long. It has said so
        // lately, or hasn't polled much since.
        virtual bool may_sleep() const noexcept = 0;
        // It did poll, and now it does so too seldom to take what comes for a thread that sleeps.
        virtual void polls_are_seldom() noexcept = 0;

      protected:
        ~Client() = default;
    };

    explicit ProgressThread(Client& client) noexcept : client_(client) {}
    ProgressThread(const ProgressThread&) = delete;
    ProgressThread& operator=(const ProgressThread&) = delete;
    // Waits for the end of the thread, unless abandon() came before.
    ~ProgressThread();

    // Once; later calls find it running. Each of the two, which are readable when there is something, may be
    // -1.
    Result<void> start(int link_fd, int bell_fd);
    // Progress is made when FD is readable, too, until it is closed. After start().
    Result<void> watch_also(int fd);
    // Not later than WHEN, progress is made. Does nothing before start().
    void wake_at(engine::Nanoseconds when) noexcept;
    // The thread is another process's: this is the child of a fork.
    void abandon() noexcept { running_ = false; }
    // The answer of Client::may_sleep() has become true.
    void program_may_sleep() const noexcept;
    // Whether it looks every few milliseconds if the program goes on polling, and makes progress when it
    // doesn't.
    bool watches_polls() const noexcept { return watches_polls_.load(std::memory_order_seq_cst); }

  private:
    static void* run(void* self) noexcept;
    void loop() noexcept;
    void look_while_busy() noexcept;
    void wait_while_polled() noexcept;
    void look_at_what_polls_left() noexcept;
    void take_what_comes() noexcept;
    void drain_timer() const noexcept;
    void drain_nudges() const noexcept;
    void close_all() noexcept;
    Result<void> watch(int fd) const;
    Result<void> start_locked(int link_fd, int bell_fd) SLUICE_TSA(requires_capability(starting_));

    Client& client_;
    Mutex starting_;
    std::atomic<bool> running_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> watches_polls_{false};
    bool has_link_ = false;
    std::uint64_t last_polls_ = 0; // of the device, when last looked at
    int wakeups_left_ = 0;         // that need not find what polls left, until polls count as progress again
    int epoll_ = -1;
    int timer_ = -1;
    int stop_ = -1;  // an eventfd
    int nudge_ = -1; // an eventfd: the thread is to watch the link again
    pthread_t thread_{};
};

} // namespace sluice::uroce::device
