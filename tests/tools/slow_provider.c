/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that a dat.conf names, and that takes as long to load as nobody writes to the FIFO that TEST_GATE
 * names. It registers nothing.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void wait_at_the_gate(void) {
    const char* const gate = getenv("TEST_GATE");
    const int fd = gate != NULL ? open(gate, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
}
