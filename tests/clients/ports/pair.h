/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What these programs begin and end with: two processes, as a launcher starts them, and the channel over
 * which a launcher lets them exchange addresses. Any failure ends both.
 */
#ifndef TESTS_CLIENTS_PORTS_PAIR_H
#define TESTS_CLIENTS_PORTS_PAIR_H

#include <dat/udat.h>
#include <stddef.h>
#include <stdint.h>

struct rank {
    int number;  /* 0 or 1 */
    int channel; /* to the other one */
    int child;   /* for 0, the other one's process */
};

/* Forks. A call of DAT before it would be one of a process that isn't there any more. */
struct rank start_pair(void);
/* Rank 1 ends here. Returns the exit status of both to rank 0. */
int end_pair(const struct rank* rank);

/* Sends SIZE bytes of MINE to the other rank, and waits for as many of its own. */
void exchange(const struct rank* rank, const void* mine, void* theirs, size_t size);
/* Waits until the other rank is here, too. */
void meet(const struct rank* rank);

/* Ends the process with the texts of dat_strerror() unless STATUS is a success. */
void must(DAT_RETURN status, const char* what);
void require(int holds, const char* what);

/* Between two looks of a program that polls: the other rank may need this processor. */
void breathe(void);

/* The next event, which must have NUMBER: asked for again and again, as programs do that poll. */
DAT_EVENT poll_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
/* The same for a transfer, which must be a success of SIZE bytes. Returns its cookie. */
DAT_UINT64 poll_transfer(DAT_EVD_HANDLE evd, DAT_VLEN size);

/* Bytes that another turn's aren't. */
void fill(char* memory, size_t size, unsigned turn);
void compare(const char* memory, size_t size, unsigned turn);

#endif
