// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: each completion gives back one place of the send queue, though only each fourth request has one.
//
// What happens: a completion ends its request and all before it. The program that counts one has fewer and
// fewer places, and believes at last that the queue is full, with nothing outstanding that would complete.
//
// Remedy: give back as many places as there were requests since the last one with a completion.
#include <stdio.h>

#include "pair.h"

enum { PLACES = 16, GROUP = 4, REQUESTS = 64 };

int main(void) {
    static unsigned from, to;
    const struct options options = {.send_requests = PLACES};
    static char symptom[100];
    struct ibv_wc completion;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, &from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, &to, sizeof to, 0);
    const struct remote remote = {(uintptr_t)&to, target->rkey};
    int places_of_a_completion = 1;
#ifdef CORRECTED
    places_of_a_completion = GROUP;
#endif

    int free_places = PLACES;
    unsigned posted = 0;
    while (posted < REQUESTS) {
        if (free_places == 0) {
            if (!poll_for(pair.a.sent, patience_ms(), &completion)) {
                break;
            }
            must(completion.status == IBV_WC_SUCCESS, "a Write");
            free_places += places_of_a_completion;
            continue;
        }
        const unsigned flags = ++posted % GROUP == 0 ? IBV_SEND_SIGNALED : 0;
        must(post(&pair.a, IBV_WR_RDMA_WRITE, source, &from, sizeof from, remote, flags) == 0, "a Write");
        --free_places;
    }
    snprintf(symptom, sizeof symptom, "the queue seems full behind %u of %d requests", posted, REQUESTS);

    end_destroy_qp(&pair.a);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(posted == REQUESTS ? NULL : symptom);
}
