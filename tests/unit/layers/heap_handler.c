// SPDX-License-Identifier: BSD-3-Clause
//
// A library that asks for a handler of fork() as soon as it is loaded. The handler fills the memory that it
// is given.
#include <pthread.h>

#include "tests/unit/layers/heap_handler.h"

struct FilledByHandler filled_by_handler;

static void in_child(void) {
    for (size_t at = 0; at < filled_by_handler.bytes; at++) {
        filled_by_handler.at[at] = 'h';
    }
}

__attribute__((constructor)) static void install(void) {
    pthread_atfork(NULL, NULL, in_child);
}
