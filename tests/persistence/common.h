/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocols store, how their file is mapped and what they tell the world.
 */
#ifndef TESTS_PERSISTENCE_COMMON_H
#define TESTS_PERSISTENCE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { kWordsOfItem = 15, kItemsOfMemory = 16, kWordsOfHead = 8 };

/* Two lines. */
struct item {
    uint64_t words[kWordsOfItem];
    uint64_t checksum;
};

struct memory {
    uint64_t head[kWordsOfHead]; /* one line */
    struct item items[kItemsOfMemory];
};

struct protocol {
    const char* name;
    void (*write)(struct memory* to, bool right);
    const char* (*check)(const struct memory* found, bool right); /* what is wrong; NULL: nothing */
    const char* option;                                           /* of `sluice persist run`, or NULL */
};

/* Ends the process unless HOLDS. */
void demand(bool holds, const char* what);
/* Words are stored one by one, in this order. */
void store(uint64_t* to, uint64_t value);
void store_item(uint64_t* to, uint64_t number);
bool is_item(const uint64_t* words, uint64_t number);
uint64_t checksum(const uint64_t* words);
/* The world knows from now on that COUNT are stored; how many it knows of. */
void tell(uint64_t count);
uint64_t told(void);

struct memory* map_memory(const char* file);
/* A descriptor of the file that was mapped; stays open. */
int open_memory(void);
/* The command line. The table ends with a name of NULL. */
int run_protocol(const struct protocol* protocols, int argc, char** argv);

#endif
