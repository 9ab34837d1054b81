// SPDX-License-Identifier: BSD-3-Clause
//
// A library that asks for a handler of fork() as soon as it is loaded. The handler fills the memory that it
// is given.
#include <pthread.h>
#include <string.h>

#include "tests/unit/layers/heap_handler.h"

struct filled_by_handler filled_by_handler;

static void in_child(void) {
    if (filled_by_handler.at != NULL) {
        memset(filled_by_handler.at, 'h', filled_by_handler.bytes);
    }
}

__attribute__((constructor)) static void install(void) {
    pthread_atfork(NULL, NULL, in_child);
}
