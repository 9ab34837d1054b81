/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads ctr_el0 and cleans and invalidates one cache line, as user mode may on Linux. */
#include <inttypes.h>
#include <stdio.h>

int main(void) {
    static volatile char line[256];
    uint64_t ctr;
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(ctr));
    line[0] = 1;
    __asm__ volatile("dc civac, %0\n\tdsb sy" : : "r"(line) : "memory");
    if (line[0] != 1)
        return 1;
    printf("ctr_el0 %#" PRIx64 ", data line %u bytes, cleaned\n", ctr, 4U << ((ctr >> 16) & 15));
    return 0;
}
