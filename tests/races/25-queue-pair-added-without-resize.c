// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a second queue pair uses a completion queue that was made for one, and the queue isn't made
// larger.
//
// What happens: each queue pair keeps its own limit, and together they overrun the queue when both are busy.
// Completions are lost, and the program waits for them without end. Here two queue pairs do that; in a
// server it is the connection one too many, and the load must be there at the same time.
//
// Reported: Open MPI computed the size wrongly when connections were added
// (open-mpi/ompi-release 1219); libfabric had to count what may still complete (ofiwg/libfabric 4913); in
// SPDK's target connections that had ended kept their places (spdk/spdk 640).
//
// Remedy: ibv_resize_cq() before the queue pair is used, for all that all of them may have outstanding.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"

enum { REQUESTS = 32 }; // of each end

static void post_writes(struct end* end, const struct ibv_mr* source, const void* from,
                        const struct remote remote) {
    for (int i = 0; i < REQUESTS; ++i) {
        must(post(end, IBV_WR_RDMA_WRITE, source, from, 8, remote, IBV_SEND_SIGNALED) == 0, "a Write");
    }
}

static void resize(struct ibv_cq* queue, int entries) {
    errno = ibv_resize_cq(queue, entries);
    if (errno == EOPNOTSUPP || errno == ENOSYS) {
        fprintf(stderr, "skipped: this device can't resize a completion queue\n");
        exit(77);
    }
    must(errno == 0, "ibv_resize_cq");
}

int main(void) {
    static char from[8] = "1234567", to[2][8];
    const struct options options = {.send_requests = REQUESTS, .sent_entries = REQUESTS, .one_sent = 1};
    static char symptom[100];
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    const struct remote for_a = {(uintptr_t)to[0], target->rkey}, for_b = {(uintptr_t)to[1], target->rkey};
    int entries = REQUESTS;
#ifdef CORRECTED
    entries += REQUESTS; // b's
#endif
    resize(pair.a.sent, entries);

    post_writes(&pair.a, source, from, for_b);
    post_writes(&pair.b, source, from, for_a);
    const int count = count_sent(&pair.a, 2 * REQUESTS);
    snprintf(symptom, sizeof symptom, "%d requests are accepted, and %d completions come", 2 * REQUESTS,
             count);

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(count == 2 * REQUESTS ? NULL : symptom);
}
