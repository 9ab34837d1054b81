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
#include <poll.h>
#include <stdio.h>

#include "pair.h"

enum { REQUESTS = 256, ENTRIES = 16 };

// Waits a millisecond for the device to say so.
static int is_overrun(struct ibv_context* verbs) {
    struct pollfd events = {.fd = verbs->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    if (poll(&events, 1, 1) != 1 || ibv_get_async_event(verbs, &event) != 0) {
        return 0;
    }
    ibv_ack_async_event(&event);
    return event.event_type == IBV_EVENT_CQ_ERR;
}

// How many completions come until all are there, or the queue is broken, or nothing comes for a while.
static int drain(struct end* end) {
    struct ibv_wc completion;
    int count = 0;
    for (int idle_ms = 0; count < REQUESTS && idle_ms < patience_ms();) {
        const int got = ibv_poll_cq(end->sent, 1, &completion);
        if (got < 0 || (got == 0 && is_overrun(end->id->verbs))) {
            break;
        }
        count += got;
        idle_ms = got == 0 ? idle_ms + 1 : 0;
    }
    return count;
}

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
    const int count = drain(&pair.a);
    if (count != REQUESTS) {
        snprintf(symptom, sizeof symptom, "%d requests are accepted, and %d completions come", posted, count);
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(count == REQUESTS ? NULL : symptom);
}
