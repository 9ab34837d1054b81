// SPDX-License-Identifier: BSD-3-Clause
//
// A mutex in memory that processes share. When a thread that holds it ends, however it ends, the next one
// that locks it is told so by EOWNERDEAD.
#pragma once

#include <pthread.h>

namespace sluice {

// False: this system has none.
inline bool make_robust(pthread_mutex_t& mutex) noexcept {
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) {
        return false;
    }
    const bool is_made = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                         pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                         pthread_mutex_init(&mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return is_made;
}

} // namespace sluice
