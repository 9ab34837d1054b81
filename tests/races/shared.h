// SPDX-License-Identifier: BSD-3-Clause
//
// What the programs about <sluice/sync.h> begin with: a few records in memory that two hosts share. Host 0
// writes them, host 1 reads them. `sluice sync run --hosts 2 -- PROGRAM FILE` runs both, as hosts whose
// caches know nothing of each other.
#ifndef TESTS_RACES_SHARED_H
#define TESTS_RACES_SHARED_H

#include <stdint.h>

// As large as the granule of any CPU: what two hosts write shares none.
enum { GRANULE = 2048, SLOTS = 4, RECORDS = 16 };

struct record {
    uint64_t number;
    char padding[GRANULE - 2 * sizeof(uint64_t)];
    uint64_t same_number; // in another line, for the program that looks at it
};

struct ring {
    uint64_t written; // host 0's: how many records it has written
    char padding_1[GRANULE - sizeof(uint64_t)];
    uint64_t taken; // host 1's: how many it has read
    char padding_2[GRANULE - sizeof(uint64_t)];
    struct record slots[SLOTS];
};

// Maps FILE, and makes it, with zeros, where it isn't there. Ends the program with status 2 if it can't.
struct ring* map_ring(int argc, char** argv);
// SYNC_HOST: 0 or 1.
int own_host(void);
// Ends the program with status 2 unless ERROR is 0, as the functions of <sluice/sync.h> return it.
void must(int error);
// A flag of the other host's.
uint64_t observe(const uint64_t* flag);
// Waits until it is VALUE or more. 0 if that doesn't happen within RACES_PATIENCE_MS, or 5 s.
int await_flag(const uint64_t* flag, uint64_t value);
// The program's status: 0 if SYMPTOM is null, otherwise 1, and it is printed; or by how many records were
// stale.
int verdict_that(const char* symptom);
int verdict(unsigned wrong);

#endif
