// SPDX-License-Identifier: BSD-3-Clause
//
// The lock of one device, with room for a note.
//
// The holder of a device may have a packet for another one. To wait for that one's lock could be to
// wait for a thread that waits for ours, so nobody does: the packet goes into the other's inbox, and
// a note on its lock reaches the holder, which can't give the lock back before having read the inbox.
//
// It is held for microseconds, by threads that the system may take off their core meanwhile: a
// waiter spins for a moment, then gives way, and in the end sleeps between looks, so that a holder
// of lower priority gets to run.
#pragma once

#include <time.h>

#include "core/not_cancelled.hpp"
#include "core/sync.hpp"

namespace sluice::uroce::device {

class SLUICE_TSA(capability("mutex")) DeviceLock {
  public:
    void lock() noexcept SLUICE_TSA(acquire_capability()) SLUICE_TSA(no_thread_safety_analysis) {
        for (int turns = 0; !try_lock(); ++turns) {
            if (turns < kSpins) {
                cpu_relax();
            } else if (turns < kSpins + kYields) {
                sched_yield();
            } else {
                const NotCancelled guard;
                const timespec nap{.tv_sec = 0, .tv_nsec = 50'000};
                nanosleep(&nap, nullptr);
            }
        }
    }

    bool try_lock() noexcept SLUICE_TSA(try_acquire_capability(true)) {
        std::uint32_t free = 0;
        // Partner: the release in try_unlock().
        return state_.load(std::memory_order_relaxed) == 0 &&
               state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }

    // False when there is a note: then the lock is still held, and the note taken off.
    bool try_unlock() noexcept SLUICE_TSA(no_thread_safety_analysis) {
        std::uint32_t held = kHeld;
        // Partner: the acquire in try_lock(). After it, nothing here is touched: the device may go.
        if (state_.compare_exchange_strong(held, 0, std::memory_order_release, std::memory_order_relaxed)) {
            return true;
        }
        // Partner: the release in leave_note(), so that the inbox is read as it was filled.
        state_.exchange(kHeld, std::memory_order_acquire);
        return false;
    }

    // After something was put into the inbox. True: the lock was free, and the caller holds it
    // now; false: its holder will look.
    bool leave_note() noexcept SLUICE_TSA(no_thread_safety_analysis) {
        std::uint32_t state = state_.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint32_t next = state == 0 ? kHeld : kHeld | kNote;
            // Partners: try_unlock() reads the note, or gave the lock back.
            if (state_.compare_exchange_weak(state, next, std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
                return state == 0;
            }
        }
    }

  private:
    static constexpr std::uint32_t kHeld = 1, kNote = 2;
    static constexpr int kSpins = 256, kYields = 1024;
    std::atomic<std::uint32_t> state_{0};
};

} // namespace sluice::uroce::device
