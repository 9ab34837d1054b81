/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that no loader finds by itself. */
int test_near_answer(void);

__attribute__((visibility("default"))) int test_near_answer(void) {
    return 42;
}
