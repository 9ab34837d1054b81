// SPDX-License-Identifier: BSD-3-Clause
//
// A mark in shared memory that tells other processes whether the thread that set it still lives. When that
// thread ends, however it ends, or its process executes another program, the kernel changes the mark: it
// walks the thread's list of robust mutexes before it lets go of the process's memory and number.
//
// The mark is such a mutex, which the thread holds as long as it lives, and not a list of our own: a thread
// has one, and what it holds of others' robust mutexes stands in that, too.
#pragma once

#include <linux/futex.h>
#include <pthread.h>

#include <cstdint>

namespace sluice {

// In memory of zeros, which outlives the thread. No other program may be able to write there, since the
// C library keeps addresses in it.
struct LifeMark {
    pthread_mutex_t mutex;

    // What any process may ask.
    bool lives() const noexcept {
        const auto word = static_cast<std::uint32_t>(
            __atomic_load_n(&mutex.__data.__lock, __ATOMIC_ACQUIRE)); // partner: LifeSign::begin()
        return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
    }
};

class LifeSign {
  public:
    explicit LifeSign(LifeMark& mark) noexcept : mark_(mark) {}
    LifeSign(const LifeSign&) = delete;
    LifeSign& operator=(const LifeSign&) = delete;

    // By the thread that it is about. False: this system doesn't walk such lists, and nothing lives.
    bool begin() noexcept;
    // By the same thread, before this object ends.
    void end() noexcept;

  private:
    LifeMark& mark_;
    bool has_begun_ = false;
};

} // namespace sluice
