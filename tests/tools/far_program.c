/* SPDX-License-Identifier: BSD-3-Clause */
/* Needs near_library.c's library, and doesn't say where it is. */
int test_near_answer(void);

int main(void) {
    return test_near_answer() == 42 ? 0 : 1;
}
