// SPDX-License-Identifier: BSD-3-Clause
//
// A number that one thread adds to and any may read, of this process or of another that maps the memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

class Count {
  public:
    Count() = default;
    Count(const Count& other) noexcept : value_(other.get()) {}
    Count& operator=(const Count&) = delete;

    // By one thread at a time, hence no atomic addition: a load and a store, neither of them locked.
    void add(std::uint64_t more = 1) noexcept { add_to(value_, more); }
    // What is 0 as often as not: acknowledgements carry no bytes.
    void add_any(std::uint64_t more) noexcept {
        if (more != 0) {
            add(more);
        }
    }
    Count& operator++() noexcept {
        add();
        return *this;
    }
    Count& operator+=(std::uint64_t more) noexcept {
        add(more);
        return *this;
    }
    void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
    // NOLINTNEXTLINE(google-explicit-constructor): to its readers it is a number
    operator std::uint64_t() const noexcept { return get(); }

  private:
    using Value = std::atomic<std::uint64_t>;

    static void add_to([[maybe_unused]] Value& value, [[maybe_unused]] std::uint64_t more) noexcept {
#if defined(SLUICE_COUNTS_NOTHING)
        // for measuring what counting costs
#elif defined(__x86_64__)
        // One instruction; compilers make three of a load and a store that are atomic.
        asm("addq %1, %0" : "+m"(value) : "er"(more) : "cc");
#else
        value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
#endif
    }

    Value value_{0};
};

static_assert(sizeof(Count) == sizeof(std::uint64_t)); // so that a row of them is a row of numbers

} // namespace sluice
