// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: one completion is polled for each event.
//
// What happens: an event says that something has come since the queue was armed, not how much. Two messages
// that come together make one event. The program takes the first, arms the queue and waits, while the second
// one lies there. With the next message it takes that one, and is late by one message from then on, or for
// good.
//
// Remedy: arm the queue, then poll it until it is empty, then wait.
#include "pair.h"

enum { MESSAGES = 2 };

// Completions of one event.
static int take(struct end* end) {
    struct ibv_wc completion;
    int count = 0;
    must(ibv_req_notify_cq(end->received, 0) == 0, "ibv_req_notify_cq");
#ifdef CORRECTED
    while (ibv_poll_cq(end->received, 1, &completion) == 1) {
        ++count;
    }
#else
    count = ibv_poll_cq(end->received, 1, &completion);
#endif
    end->receives -= (unsigned)count;
    return count;
}

int main(void) {
    static char from[8] = "hello", to[MESSAGES][8];
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    must(ibv_req_notify_cq(pair.b.received, 0) == 0, "ibv_req_notify_cq");
    for (int i = 0; i < MESSAGES; ++i) {
        post_receive(&pair.b, target, to[i], sizeof to[i]);
        post_message(&pair.a, source, from, sizeof from);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    }
    int taken = 0;
    while (taken < MESSAGES && take_event(&pair.b)) {
        taken += take(&pair.b);
    }

    end_flush(&pair.b); // the region is in use as long as the message wasn't polled
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(taken == MESSAGES ? NULL : "no event comes, and the message lies in the queue");
}
