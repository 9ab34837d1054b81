// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of ours in a program of somebody else's: with little memory, a name that tells whose they
// are, and deaf to the program's signals, which are for its own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace sluice::uroce {

// 0 or an errno. NAME has at most 15 characters.
inline int start_quiet_thread(pthread_t& thread, const char* name, std::size_t stack_bytes,
                              void* (*body)(void*), void* argument) noexcept {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    // But a page that is gone must not end the program, and a fault that is blocked does
    // (port/guard.hpp).
    sigset_t others;
    sigset_t before;
    sigfillset(&others);
    sigdelset(&others, SIGSEGV);
    sigdelset(&others, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    const int error = pthread_create(&thread, &attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        pthread_setname_np(thread, name);
    }
    return error;
}

} // namespace sluice::uroce
