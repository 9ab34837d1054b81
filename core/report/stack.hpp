// SPDX-License-Identifier: BSD-3-Clause
//
// Where a program is: the return addresses on a thread's stack, taken fast enough for each request that a
// program posts. Names and lines come later, from these addresses.
//
// Unwinding takes a microsecond. A program posts from the same places again and again, so that each thread
// keeps its last stack together with the words of memory that held the return addresses. If all of them still
// hold the same, the stack is the same, and unwinding is spared. That is done on x86-64, where the
// architecture says in which word a return address is; others unwind each time.
//
// Thread safety: may be called in any thread at any time, and in a signal's handler outside of capture().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::report {

struct Stack {
    static constexpr std::size_t kMost = 24;

    std::array<const void*, kMost> addresses = {}; // innermost first
    std::uint8_t count = 0;

    std::span<const void* const> frames() const noexcept { return std::span(addresses).first(count); }
};

// Of the calling thread, its caller first. Cuts what is deeper.
Stack capture() noexcept;

// In the handler of a fault: of what the fault interrupted, the faulting instruction's function first. As if
// a call had returned right behind that place, since frames are return addresses. Unwinds each time. Nothing
// where the unwinder can't pass the handler's frame.
Stack capture_fault() noexcept;

} // namespace sluice::report
