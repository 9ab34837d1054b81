// SPDX-License-Identifier: BSD-3-Clause
//
// What finder finds.
int test_plugin_answer(void);

__attribute__((visibility("default"))) int test_plugin_answer(void) {
    return 42;
}
