// SPDX-License-Identifier: BSD-3-Clause
//
// A word in shared memory that tells other processes whether the thread that set it still lives. When that
// thread ends, however it ends, or its process executes another program, the kernel marks the word: it walks
// the thread's list of robust futexes before it lets go of the process's memory and number.
//
// The thread has no other list: its own robust mutexes, if it had any, would be forgotten.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

namespace sluice {

class LifeSign {
  public:
    // WORD outlives the thread.
    explicit LifeSign(std::atomic<std::uint32_t>& word) noexcept : word_(word) {}
    LifeSign(const LifeSign&) = delete;
    LifeSign& operator=(const LifeSign&) = delete;

    // By the thread that it is about. False: this system keeps no such list, and the word stays 0.
    bool begin() noexcept;
    // By the same thread, before this object ends.
    void end() noexcept;

    // What any process may ask of the word.
    static bool lives(std::uint32_t word) noexcept {
        return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
    }

  private:
    std::atomic<std::uint32_t>& word_;
    robust_list entry_{};
    robust_list_head list_{};
};

} // namespace sluice
