/* SPDX-License-Identifier: BSD-3-Clause */
/* How two hosts get at the memory that they share, and tell each other to go on. */
#ifndef SLUICE_TESTS_TOOLS_SHARER_H
#define SLUICE_TESTS_TOOLS_SHARER_H

#include <stddef.h>
#include <stdint.h>

enum { BYTES = 5000, PAGE = 4096 };

struct shared {
    uint64_t flag;
    char unused[PAGE - sizeof(uint64_t)];
    unsigned char data[3 * PAGE];
};

/* 0 or 1. */
extern int host;

/* Ends the program with 2, and errno's text, unless HOLDS. */
void demand(int holds, const char* what);

/* The path of NAME in DIRECTORY, until the next call. */
const char* path_of(const char* name);

/* First of all. */
void open_pipes(const char* directory);
/* The other host goes on behind hear() when this one has come to tell(). */
void tell(void);
void hear(void);

/* WAY is how: "file", "read-only" for host 1, "memfd" through a socket, in "parts", "late" when host 0 has
 * told, or "filled" before anybody maps it. */
struct shared* map_as(const char* way);

/* What the reader expects. */
unsigned char byte_at(size_t index);
void fill(unsigned char* data);

#endif
