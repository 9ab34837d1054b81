/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In C without exceptions, where the C library jumps back into this frame. In C++, and in C with them, it
 * would have something to destroy. */
#include "core/cancellable_call.h"

#include <pthread.h>

#ifdef __EXCEPTIONS
#error "compile this file with -fno-exceptions"
#endif

int sluice_cancellable_call(int (*call)(void* argument), void* argument, void (*undo)(void* what),
                            void* what) {
    int answer = 0;
    pthread_cleanup_push(undo, what);
    answer = call(argument);
    pthread_cleanup_pop(0);
    return answer;
}
