// SPDX-License-Identifier: BSD-3-Clause
//
// Two connected endpoints, "a" and "b", in one process, for the programs about DAT. The adapter is the one
// with the address RACES_ADDRESS, or LAB_DEVICE, which `sluice run` sets, or else uroce0.
// SLUICE_COHERENCE=simulated makes it one that doesn't see the CPU's caches; without it no mistake shows on
// a coherent machine. Everything else is from the examples' common.h.
#ifndef TESTS_RACES_DAT_PAIR_H
#define TESTS_RACES_DAT_PAIR_H

#include "common.h"

struct dat_pair {
    struct side side; // of both
    DAT_EP_HANDLE a;
    DAT_EP_HANDLE b;
};

// REQUESTS is how many events `side.requests` holds; 0: as many as the examples'.
void dat_pair_open(struct dat_pair* pair, DAT_COUNT requests);
void dat_pair_close(struct dat_pair* pair);
// Whatever state the connection is in: the adapter goes with everything that was made of it.
void dat_pair_abort(struct dat_pair* pair);
// How long to wait for what may never come: RACES_PATIENCE_MS, or 5 s.
DAT_TIMEOUT patience_us(void);
// As a peer names it.
DAT_RMR_TRIPLET remote_of(const struct region* region);
// The program's status: 0 if SYMPTOM is null, otherwise 1, and it is printed.
int verdict(const char* symptom);

#endif
