/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_RPMA_MAPPING_H
#define EXAMPLES_RPMA_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

/* A file in memory, or memory only where there is no file. */
struct mapping {
    char* memory;
    size_t size;
    /* The file is persistent memory: what is written back from the CPU's caches survives a loss of power. */
    bool is_persistent;
};

/* FILE may be NULL, a file, or a device like /dev/dax0.0. Ends the program if it can't be mapped. */
struct mapping map_file(const char* file, size_t size);

#endif
