// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// What the handler of a forked process fills with the letter h.
__attribute__((visibility("default"))) extern struct FilledByHandler {
    char* at;
    size_t bytes;
} filled_by_handler;

#ifdef __cplusplus
}
#endif
