// SPDX-License-Identifier: BSD-3-Clause
//
// Pages of the program's with lines that the device has written and the program hasn't invalidated: old lines
// (ADR 93). Such a page is closed: nothing can access it, and the first access to an old line is recorded,
// with its stack. From then on the page is open, until the device writes other lines there. An access to
// another line of the page isn't recorded: the page is opened for one instruction (x86-64), or until the next
// event.
//
// An access is recorded only in a thread that has taken an event since the line was found to be old. What a
// peer writes while a thread looks at memory without any event may come between a sync and a load.
//
// A system call on a closed page fails with EFAULT. So a page that has other lines than old ones is closed
// only where a preloaded layer opens it before: one that exports
//
//     void sluice_check_on_buffers(void (*touch)(const void* address, size_t length, int is_store));
//
// and calls TOUCH before libc hands memory of the program's to the kernel.
//
// There is one table for the process. Its entries stay, since a thread may fault at a page that another one
// opens at this moment. The handler takes no lock and allocates nothing.
//
// Thread safety: everything may be called from any thread; set_old(), forget() and close_again() of one page
// by one at a time.
#pragma once

#include <array>
#include <cstdint>

#include "core/coherence/cacheflush.hpp"
#include "core/old_pages/page_states.hpp"
#include "core/report/stack.hpp"

namespace sluice::old_pages {

constexpr std::uintptr_t kLineBytes = 64; // a page's lines are the bits of a word
constexpr std::uintptr_t kWordBytes = 8;
// Whether they say which byte was accessed. On s390x they name the page: there such an access is recorded
// only where all lines of the page are old.
#if defined(__s390x__)
constexpr bool kKnowsAddresses = false;
#else
constexpr bool kKnowsAddresses = true;
#endif

// The calling thread is about to have an event: what is found to be old from now on is marked by the number.
std::uint32_t begin_event() noexcept;
// What is marked by NUMBER, or by those before it, is the calling thread's to know.
void end_event(std::uint32_t number) noexcept;

// The lines OLD of PAGE are old, and no others. Closes the page if some of them weren't before, and if it
// may.
void set_old(std::uintptr_t page, std::uint64_t old, std::uint32_t event) noexcept;
// The same where some words of a line are old, and others are what they were: a bit for each word of each
// line. Only loads are recorded, of these words.
using OldWords = std::array<std::uint8_t, 64>;
void set_old_words(std::uintptr_t page, const OldWords& words, std::uint32_t event) noexcept;
// Before we access BYTES ourselves.
void open(coherence::LineRun bytes) noexcept;
// These lines aren't old any more.
void forget(coherence::LineRun lines) noexcept;
// After open(), where old lines are left and none of them was touched.
void close_again(coherence::LineRun bytes) noexcept;
bool is_closed(std::uintptr_t page) noexcept;
// Whether it can be read now, and stays so until somebody closes pages.
bool is_open(std::uintptr_t page) noexcept;

// The first access to an old line of a page.
struct Touch {
    std::uintptr_t address = 0;
    coherence::LineRun old = {}; // those around it
    bool is_store = false;       // where that is known
    std::uint64_t word = 0;      // what the accessed word holds, where loads alone are recorded
    std::uint64_t time_ns = 0;   // as the coherence timeline has it
    report::Stack stack;
};
// Takes one that was recorded; one thread at a time. False: there is none.
bool take(Touch& touch) noexcept;

} // namespace sluice::old_pages
