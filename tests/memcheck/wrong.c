/* SPDX-License-Identifier: BSD-3-Clause */
/* Goes by memory that nobody has written, so that it is known that memcheck looks. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    char* const memory = malloc(64);
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): that is what is wrong with it
    if (memory != NULL && memory[7] == 'x') {
        puts("x");
    }
    free(memory);
    return 0;
}
