// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>

int main(void) {
    return puts("it runs") < 0;
}
