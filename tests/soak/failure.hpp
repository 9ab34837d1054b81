// SPDX-License-Identifier: BSD-3-Clause
//
// How a process of the soak fails: one line with what was wrong and in which step, and the status 1. And how
// long it waits before it does.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::test::soak {

// What is said with each failure of this process.
struct Place {
    const char* role = "soak";
    std::uint64_t step = 0;
    unsigned round = 0;
    const char* doing = "beginning";
    // Called before the process ends; null: nothing.
    void (*let_go)() = nullptr;
};
Place& place();

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Of calls that return 0 or an errno.
void must_be_zero(int error, const char* what);

template<typename T>
T* must_be(T* made, const char* what);

// Of calls that return null with errno set.
[[noreturn]] void fail_with_errno(const char* what);
template<typename T>
T* must_be(T* made, const char* what) {
    if (made == nullptr) {
        fail_with_errno(what);
    }
    return made;
}

using Clock = std::chrono::steady_clock;

// Time that this process had a processor for: gaps between two looks that are longer than a look takes are
// not counted, so that a busy machine, or a stop of this process, isn't taken for a defect.
class Patience {
  public:
    // Fails with WHAT when LIMIT is over.
    Patience(std::chrono::milliseconds limit, const char* what)
        : limit_(limit), what_(what), began_(Clock::now()), last_(began_) {}
    void look();
    std::chrono::microseconds counted() const;

  private:
    std::chrono::milliseconds limit_;
    const char* what_;
    Clock::time_point began_;
    Clock::time_point last_;
    Clock::duration without_processor_{};
};

} // namespace sluice::test::soak
