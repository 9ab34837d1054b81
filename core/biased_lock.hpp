// SPDX-License-Identifier: BSD-3-Clause
//
// A lock that costs a thread next to nothing while no other wants it.
//
// Queues may be used by any thread, and are used by one. The first thread that has taken the lock often
// enough in a row, and no other meanwhile, gets it for itself: from then on it enters by a store, and no
// atomic exchange. Another thread that comes takes that right away, which costs a system call
// (core/thread_pins.hpp), and the inner lock, which all go through again. What the right was earned by costs
// as much as taking it away: so nobody pays more than twice what the inner lock alone would have cost.
//
// The right never goes to a second thread: one that was stopped just where it enters can't be told from one
// that has entered, and nobody else may write what it writes there.
//
// As any lock of ours it isn't recursive: a thread that has it and wants it again waits for itself. It must
// not end before unlock() has returned.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/sync.hpp"
#include "core/thread_pins.hpp"

namespace sluice {

// INNER: what threads take that compete for it, a Mutex or a SpinLock.
template<typename Inner>
class SLUICE_TSA(capability("mutex")) BiasedLock {
  public:
    // Each inner lock costs some 10 ns, and taking the right away 0.4 to 12 us.
    static constexpr std::uint32_t kEarnedAfter = 1024;

    void lock() noexcept SLUICE_TSA(acquire_capability()) SLUICE_TSA(no_thread_safety_analysis) {
        const thread_pins::Entries* const me = thread_pins::mine;
        if (owner_.load(std::memory_order_relaxed) == me && inside_.load(std::memory_order_relaxed) == 0)
            [[likely]] {
            inside_.store(1, thread_pins::kPublish);
            std::atomic_signal_fence(std::memory_order_seq_cst); // partner: order_all_threads()
            if (owner_.load(std::memory_order_seq_cst) == me) [[likely]] {
                return;
            }
            leave();
        }
        lock_inner();
    }

    void unlock() noexcept SLUICE_TSA(release_capability()) SLUICE_TSA(no_thread_safety_analysis) {
        if (is_inner_) {
            is_inner_ = false;
            inner_.unlock();
        } else {
            leave();
        }
    }

  private:
    // The owner's end.
    void leave() noexcept {
        inside_.store(0, thread_pins::kPublish); // partner: the load in revoke()
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (owner_.load(std::memory_order_seq_cst) == nullptr) [[unlikely]] {
            inside_.exchange(0,
                             std::memory_order_seq_cst); // a sleeping thread is seen, or has seen the store
            inside_.notify_all();
        }
    }

    [[gnu::noinline]] void lock_inner() noexcept SLUICE_TSA(no_thread_safety_analysis) {
        inner_.lock();
        if (owner_.load(std::memory_order_relaxed) != nullptr) {
            revoke();
        }
        is_inner_ = true;
        const thread_pins::Entries* const me = thread_pins::mine;
        in_a_row_ = last_ == me ? in_a_row_ + 1 : 1;
        last_ = me;
        if (in_a_row_ >= kEarnedAfter && thread_pins::is_own(me) && (heir_ == nullptr || heir_ == me)) {
            in_a_row_ = 0;
            heir_ = me;
            owner_.store(me, std::memory_order_relaxed); // other threads have to come through here
        }
    }

    void revoke() noexcept {
        owner_.store(nullptr, std::memory_order_seq_cst);
        thread_pins::order_all_threads();
        while (inside_.load(std::memory_order_seq_cst) != 0) {
            inside_.wait(1, std::memory_order_acquire);
        }
    }

    // The thread that has the bias; null: none. Changed by the holder of the inner lock.
    std::atomic<const thread_pins::Entries*> owner_{nullptr};
    std::atomic<std::uint32_t> inside_{0}; // whether the owner has the lock, or looks whether he may
    Inner inner_;
    // The lock holder's.
    bool is_inner_ = false;                      // by the inner one
    std::uint32_t in_a_row_ = 0;                 // inner locks, of the last thread
    const thread_pins::Entries* last_ = nullptr; // that one
    const thread_pins::Entries* heir_ = nullptr; // the only one that may be the owner, if any was
};

} // namespace sluice
