// SPDX-License-Identifier: BSD-3-Clause
//
// Accesses that may meet a page which is no longer there, and then fail instead of ending the
// program.
//
// A handler for SIGSEGV and SIGBUS jumps out of the access; any fault outside of one goes on to the
// handler that the program had, as if ours weren't there. This costs a sigsetjmp() per access, some
// nanoseconds, where asking the kernel would cost a system call.
//
// What the program owes: a handler that it installs later replaces ours until prepare_guard() is
// called again (the device does so whenever it registers memory) unless it passes on what it doesn't
// know; and a thread that blocks SIGSEGV or SIGBUS dies of a fault, in here as anywhere, because the
// kernel delivers no blocked fault. docs/adr/0060 says when to take system calls instead.
//
// A checker in the same process (`sluice check`) protects pages that are in use from the program. It is found
// by the names of its functions, and asked to open a page where an access meets one: then the access goes on.
//
// Thread safety: everything may run in any thread at any time, but not within a guarded access.
#pragma once

#include <cstddef>
#include <type_traits>

#include "core/result.hpp"

namespace sluice::roce::socket {

// Whether there is a checker; prepare_guard() looks, too. A system call that fails for its pages may ask it
// to open all pages of that memory. True: it has opened one, and the call is to be repeated.
void look_for_checker() noexcept;
bool opened_by_checker(const void* memory, std::size_t bytes) noexcept;
// How many bytes of a store to TO, or of a load from FROM, the checker does itself, since their pages are
// protected: up to the first that isn't. They stay protected.
bool has_checker() noexcept;
std::size_t stored_by_checker(void* to, const void* from, std::size_t bytes) noexcept;
std::size_t loaded_by_checker(void* to, const void* from, std::size_t bytes) noexcept;

// Puts our handler in place, in front of the program's. Cheap when it is there already.
Result<void> prepare_guard();

// Calls ACCESS(CONTEXT); false when a page wasn't there, or not for this kind of access. ACCESS is
// left in the middle then: it holds no lock and no object with a destructor, and calls nothing that
// does. What it has changed by then stays changed. Only after prepare_guard().
bool run_guarded(void (*access)(void* context), void* context) noexcept;

template<typename Access>
bool guarded(Access&& access) noexcept {
    using Plain = std::remove_reference_t<Access>;
    return run_guarded([](void* context) { (*static_cast<Plain*>(context))(); }, &access);
}

} // namespace sluice::roce::socket
