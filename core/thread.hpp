// SPDX-License-Identifier: BSD-3-Clause
//
// A library's own thread in somebody else's program. It has a name and blocks the signals that are meant for
// the program's threads. SIGSEGV and SIGBUS stay open: such a thread may run into a page that the program
// has unmapped, and the kernel kills a process for a fault that is blocked (ADR 60).
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace sluice {

// 0 or an errno. NAME has at most 15 characters. STACK_BYTES 0: as large as any other thread's.
inline int start_quiet_thread(pthread_t& thread, const char* name, std::size_t stack_bytes,
                              void* (*body)(void*), void* argument) noexcept {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes != 0) {
        pthread_attr_setstacksize(&attributes, stack_bytes);
    }
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(&thread, &attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        pthread_setname_np(thread, name);
    }
    return error;
}

} // namespace sluice
