// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that a device uses, protected from the program: an access that a request forbids becomes a fault,
// which is remembered, and the access goes on.
//
// Only whole pages of a buffer are protected, for as long as its request is outstanding. A page that was
// touched once is open for all requests that have it then: the program behaves as without us, and one touch
// is told, for the request that was posted last.
//
// What the program may do with a page is looked up in /proc/self/maps when the page is first seen, and kept.
// So lift_range() has to be called BEFORE the program changes a mapping: munmap, mremap, mprotect, a mapping
// over another one, free of a large block. It has to be called, too, before the kernel looks at the pages for
// the program: before memory is registered, and before a system call gets a buffer, since both would fail.
// What isn't safe to protect is refused: stacks, code, huge pages of hugetlbfs, devices, memory that can't be
// read.
//
// What the program owes: a thread that blocks SIGSEGV dies of a touch, because the kernel delivers no fault
// that is blocked, and whether other threads block it can't be known. A handler of SIGSEGV that the program
// installs is found at the next protect(); a touch before that is taken for the program's own fault. An
// alternate stack for signals needs room for an unwinder: SIGSTKSZ, not MINSIGSTKSZ. A child of fork()
// protects nothing.
//
// Thread safety: everything may be called in any thread at any time, but not in a signal's handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/check/pages/touch.hpp"

namespace sluice::layers::check::pages {

// Of the whole pages of some memory.
enum class Protected : std::uint8_t {
    kNone, // there is none, or the memory is refused, or a limit is reached
    kSome,
    kAll,
};

// Looks up what the program may do with the pages that lie wholly in that memory. To be called where memory
// is registered: it takes the time of reading /proc/self/maps, which protect() takes otherwise.
void learn(const void* memory, std::size_t bytes) noexcept;

// For the request TAG, which may have several pieces of memory. No two requests have the same tag at a time.
// Allocates nothing where the memory is known.
Protected protect(std::uint64_t tag, const void* memory, std::size_t bytes, Forbidden forbidden) noexcept;
// Pages that are open by now stay so.
void change(std::uint64_t tag, Forbidden forbidden) noexcept;
// The request has ended.
void lift(std::uint64_t tag) noexcept;
// Every page that the memory has a part of, for all requests.
void lift_range(const void* memory, std::size_t bytes) noexcept;
// The same, before the kernel loads from the memory for the program, or stores to it. True: a request forbids
// that, and TOUCH says so, but for its stack. When the kernel has done it, keep() adds it to those that can
// be taken.
bool lift_for_kernel(const void* memory, std::size_t bytes, bool is_store, Touch& touch) noexcept;
void keep(const Touch& touch) noexcept;

// The oldest touch that wasn't taken. One load where there is none.
bool take_touch(Touch& touch) noexcept;

} // namespace sluice::layers::check::pages
