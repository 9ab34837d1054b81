// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion queue is found empty, then armed, and the program sleeps without polling once more.
//
// What happens: arming asks for an event for the next completion. One that came between the poll and the
// arming brings none. The message lies in the queue, and the program sleeps beside it until another one
// comes, or without end. It is a race of nanoseconds, and happens once a day.
//
// Reported: libfabric's blocking read (ofiwg/libfabric 796); brpc, where calls timed out (apache/brpc 3415);
// perftest took too few completions before it slept again (linux-rdma/perftest 137).
//
// Remedy: arm, then poll until the queue is empty, then sleep.
#include "pair.h"

int main(void) {
    static char from[8] = "hello", to[8];
    const struct options options = {0};
    struct ibv_wc completion;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);

    int got = ibv_poll_cq(pair.b.received, 1, &completion);
    must(got == 0, "an empty queue");
    post_message(&pair.a, source, from, sizeof from); // the message comes in this moment
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    must(ibv_req_notify_cq(pair.b.received, 0) == 0, "ibv_req_notify_cq");
#ifdef CORRECTED
    got = ibv_poll_cq(pair.b.received, 1, &completion);
#endif
    if (got == 0 && take_event(&pair.b)) {
        got = ibv_poll_cq(pair.b.received, 1, &completion);
    }
    if (got == 1) {
        --pair.b.receives;
    }

    const char* const symptom = got == 1 ? NULL : "no event comes, and the message lies in the queue";
    end_flush(&pair.b); // the region is in use as long as the message wasn't polled
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
