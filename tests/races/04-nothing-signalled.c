// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: no request in a send queue ever asks for a completion.
//
// What happens: a request without a completion keeps its place in the send queue until a later one has a
// completion, and the program has polled it. So the queue is full after some time, although all requests are
// done, and ibv_post_send() answers ENOMEM from then on. In a test that is shorter than the queue all is
// well, and on uroce always: it takes places back by itself.
//
// Reported: brpc's window let its send queue run full (apache/brpc 3132); tensorpipe counted too few
// requests (pytorch/tensorpipe 414); libfabric has to poll when a post answers ENOMEM, and try again
// (ofiwg/libfabric 4345).
//
// Remedy: ask for a completion at least once for each time that the queue fills, and poll it.
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { QUEUE = 16, REQUESTS = 2000 }; // a device may grant more than it is asked for

int main(void) {
    static unsigned from, to;
    const struct options options = {.send_requests = QUEUE};
    static char symptom[100];
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, &from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, &to, sizeof to, 0);
    const struct remote remote = {(uintptr_t)&to, target->rkey};

    unsigned done = 0;
    for (; done < REQUESTS; ++done) {
        unsigned flags = 0;
#ifdef CORRECTED
        flags = done % (QUEUE / 2) == QUEUE / 2 - 1 ? IBV_SEND_SIGNALED : 0;
#endif
        const int error = post(&pair.a, IBV_WR_RDMA_WRITE, source, &from, sizeof from, remote, flags);
        if (error != 0) {
            snprintf(symptom, sizeof symptom, "request %u is refused: %s", done, strerror(error));
            break;
        }
        if (flags != 0) {
            must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a Write");
        }
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(done == REQUESTS ? NULL : symptom);
}
