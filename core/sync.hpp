// SPDX-License-Identifier: BSD-3-Clause
//
// Locks that the compiler checks. Under clang, -Wthread-safety turns a guarded member touched
// without its lock into an error; under gcc the annotations vanish.
//
//     Mutex mutex_;
//     int count_ SLUICE_TSA(guarded_by(mutex_)) = 0;
//     void grow_locked() SLUICE_TSA(requires_capability(mutex_));
//
// Mutex is for the control path: it sleeps. SpinLock is for sections of a few dozen
// instructions that call nothing: it never enters the kernel unless the holder was descheduled.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#if defined(__clang__)
#define SLUICE_TSA(attribute) __attribute__((attribute))
#else
#define SLUICE_TSA(attribute)
#endif

namespace sluice {

// Tells the core that this is a spin-wait, so that a sibling thread gets its units.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#else
    asm volatile("" ::: "memory");
#endif
}

// Whether stores of one CPU become visible to others in the order of the program, those of two calls of a
// copy function too.
#if defined(__x86_64__)
inline constexpr bool kStoresStayInOrder = true;
#else
inline constexpr bool kStoresStayInOrder = false;
#endif

class SLUICE_TSA(capability("mutex")) Mutex {
  public:
    void lock() SLUICE_TSA(acquire_capability()) { mutex_.lock(); }
    void unlock() SLUICE_TSA(release_capability()) { mutex_.unlock(); }
    bool try_lock() SLUICE_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }

  private:
    friend class ConditionVariable;
    std::mutex mutex_;
};

class SLUICE_TSA(capability("mutex")) SpinLock {
  public:
    void lock() noexcept SLUICE_TSA(acquire_capability()) {
        // Partner of the release in unlock(): what the last holder wrote is seen.
        while (held_.exchange(1, std::memory_order_acquire) != 0)
            [[unlikely]] {
                wait_until_free();
            }
    }
    bool try_lock() noexcept SLUICE_TSA(try_acquire_capability(true)) {
        return held_.exchange(1, std::memory_order_acquire) == 0;
    }
    void unlock() noexcept SLUICE_TSA(release_capability()) {
        held_.store(0, std::memory_order_release); // partner: the exchange in lock()
    }

  private:
    // Long enough for any section that this lock is meant for, short enough that a preempted
    // holder on the same core gets to run.
    static constexpr int kSpinsBeforeYield = 256;

    // Out of line: most calls find the lock free.
    [[gnu::noinline, gnu::cold]] void wait_until_free() const noexcept {
        for (int spins = 0; held_.load(std::memory_order_relaxed) != 0; ++spins) {
            if (spins < kSpinsBeforeYield) {
                cpu_relax();
            } else {
                sched_yield();
            }
        }
    }
    // A whole word: riscv64 exchanges no single bytes without a library call.
    std::atomic<std::uint32_t> held_{0};
};

// Holds a Mutex or SpinLock for a scope.
template<typename Lock>
class SLUICE_TSA(scoped_lockable) LockGuard {
  public:
    explicit LockGuard(Lock& lock) SLUICE_TSA(acquire_capability(lock)) : lock_(lock) { lock_.lock(); }
    ~LockGuard() SLUICE_TSA(release_capability()) { lock_.unlock(); }
    LockGuard(const LockGuard&) = delete;
    LockGuard& operator=(const LockGuard&) = delete;

  private:
    Lock& lock_;
};

// A condition over state that a Mutex guards. As always: wait in a loop over the condition.
//
// Built on pthreads and not on <condition_variable>, whose object for any lock must be
// constructed at run time: a library that logs from its constructor would be too early for it.
class ConditionVariable {
  public:
    void wait(Mutex& mutex) SLUICE_TSA(requires_capability(mutex)) {
        pthread_cond_wait(&condition_, mutex.mutex_.native_handle());
    }
    void notify_one() noexcept { pthread_cond_signal(&condition_); }
    void notify_all() noexcept { pthread_cond_broadcast(&condition_); }

  private:
    pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

} // namespace sluice
