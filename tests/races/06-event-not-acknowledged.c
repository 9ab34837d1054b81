// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an event of a completion queue is taken and not acknowledged before the queue is destroyed.
//
// What happens: ibv_destroy_cq() waits until every event that ibv_get_cq_event() has given out is
// acknowledged. So the program doesn't end, at a place where nobody looks for a reason.
//
// Reported: UCX hung in ucp_worker_destroy(), since it acknowledged all events on one queue (openucx/ucx
// 1039); librpma (pmem/rpma 905); pyverbs, where an exception skipped the call (linux-rdma/rdma-core 657).
//
// Remedy: ibv_ack_cq_events() for the queue that the event names. Many events may be acknowledged by one
// call.
#include <string.h>

#include "pair.h"

// A call that waits without end is interrupted by nothing else.
int main(void) {
    static char from[8] = "hello", to[8];
    const struct options options = {0};
    struct ibv_cq* queue = NULL;
    void* context = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
    must(ibv_req_notify_cq(pair.b.received, 0) == 0, "ibv_req_notify_cq");
    post_message(&pair.a, source, from, sizeof from);

    must(ibv_get_cq_event(pair.b.channel, &queue, &context) == 0, "ibv_get_cq_event");
#ifdef CORRECTED
    ibv_ack_cq_events(queue, 1);
#endif
    must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    const int right = memcmp(from, to, sizeof to) == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    watch("ibv_destroy_cq() doesn't return");
    pair_close(&pair);
    return verdict(right ? NULL : "the message isn't there");
}
