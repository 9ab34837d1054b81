// SPDX-License-Identifier: BSD-3-Clause
//
// A library's own thread in somebody else's program. It has a name and blocks the signals that are meant for
// the program's threads. SIGSEGV and SIGBUS stay open: such a thread may run into a page that the program
// has unmapped, and the kernel kills a process for a fault that is blocked (ADR 60).
#pragma once

#include <pthread.h>

#include <cstddef>

namespace sluice {

// 0 or an errno. NAME has at most 15 characters. STACK_BYTES 0: as large as any other thread's. When it
// returns, the thread has its name and has made its first allocation, which calls what others rewrite
// (core/memory_calls.hpp).
int start_quiet_thread(pthread_t& thread, const char* name, std::size_t stack_bytes, void* (*body)(void*),
                       void* argument) noexcept;

} // namespace sluice
