// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of a program that other processes of this host can map: pages of one memory file, for what takes a
// page or more. A process that is forked gets a copy of its own, as it would of private memory.
//
// The file is made with the first allocation. Nothing here calls malloc().
//
// Thread safety: may be called from any thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "layers/heap/runs.hpp"

namespace sluice::layers::heap {

class Heap {
  public:
    enum class Content { kAny, kZero };

    // The one of this process.
    static Heap& instance() noexcept;
    // Once, before anybody else asks for handlers of fork(): theirs are called in the child after ours, and
    // touch memory that is the child's own by then.
    static bool follow_forks() noexcept;
    // Whether what is asked for takes a page or more, or is aligned to one. ALIGNMENT is a power of two.
    static bool is_for_us(std::size_t bytes, std::size_t alignment) noexcept;
    static std::size_t page_bytes() noexcept;

    // Null: there is no room, or no memory file.
    void* allocate(std::size_t bytes, std::size_t alignment, Content content) noexcept;
    // Whether POINTER is into memory of this heap.
    bool owns(const void* pointer) const noexcept;

    // The following take what allocate() has returned, and end the program if it wasn't that.
    void free(void* pointer) noexcept;
    std::size_t size_of(const void* pointer) noexcept;
    // False: it can't become as large in its place. Not of 0 bytes.
    bool resize(void* pointer, std::size_t bytes) noexcept;

  private:
    class Guard;
    enum class State : std::uint8_t { kNone, kReady, kImpossible };

    static std::uint32_t pages_for(std::size_t bytes) noexcept;

    bool get_ready() noexcept;
    bool make(std::size_t bytes) noexcept;
    char* begin() const noexcept { return begin_.load(std::memory_order_acquire); }
    std::uint32_t page_of(const void* pointer) const noexcept;
    void* address_of(std::uint32_t page) const noexcept;
    void need_taken(const void* pointer, const char* call) const noexcept;

    void before_fork() noexcept;
    void after_fork_in_parent() noexcept;
    void after_fork_in_child() noexcept;
    bool get_own_copy() noexcept;

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    State state_ = State::kNone;
    std::atomic<char*> begin_ = nullptr; // never changes once it is set
    std::size_t bytes_ = 0;
    int file_ = -1;
    int copied_[2] = {-1, -1}; // a pipe; its end of file says that the child has its copy
    Runs runs_;
};

} // namespace sluice::layers::heap
