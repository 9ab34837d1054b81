// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion queue has fewer entries than requests with a completion may be outstanding.
//
// What happens: when the program is late to poll, completions overrun the queue. The device reports
// IBV_EVENT_CQ_ERR, to which few programs listen, and completions are lost: the program waits for them
// without end. It shows under load only, since a program that polls in time never fills the queue.
//
// Reported: Open MPI's usnic transport at large scale (open-mpi/ompi 2692); SPDK, where a device can't
// resize the queue (spdk/spdk 1747); libfabric's EFA provider raised its default for this reason
// (ofiwg/libfabric 11337).
//
// Remedy: as many entries as all queue pairs on the queue may have outstanding, sends and receives.
#include <stdio.h>

#include "pair.h"

enum { REQUESTS = 256, ENTRIES = 16 };

int main(void) {
    static char from[8] = "1234567", to[8];
    struct options options = {.send_requests = REQUESTS};
    static char symptom[100];
    struct pair pair;

#ifdef CORRECTED
    options.sent_entries = REQUESTS;
#else
    options.sent_entries = ENTRIES;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    const struct remote remote = {(uintptr_t)to, target->rkey};

    int posted = 0;
    while (posted < REQUESTS &&
           post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0) {
        ++posted;
    }
    const int count = count_sent(&pair.a, REQUESTS);
    if (count != REQUESTS) {
        snprintf(symptom, sizeof symptom, "%d requests are accepted, and %d completions come", posted, count);
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(count == REQUESTS ? NULL : symptom);
}
