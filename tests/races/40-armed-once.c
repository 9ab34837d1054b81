// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion queue is armed once, and not again behind its event.
//
// What happens: ibv_req_notify_cq() asks for one event. The first message wakes the program, the second one
// lies in the queue, and the program sleeps beside it.
//
// Reported: libfabric's verbs provider neither armed its queue at first nor in each case again
// (ofiwg/libfabric 795).
//
// Remedy: arm again behind each event, and then poll until the queue is empty (05 shows why in this order).
#include "pair.h"

int main(void) {
    static char from[8] = "hello", to[2][8];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    must(ibv_req_notify_cq(pair.b.received, 0) == 0, "ibv_req_notify_cq");

    for (int i = 0; i < 2; ++i) {
        post_receive(&pair.b, target, to[i], sizeof to[i]);
        post_message(&pair.a, source, from, sizeof from);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
        if (!take_event(&pair.b)) {
            symptom = "no event comes, and the message lies in the queue";
            break;
        }
#ifdef CORRECTED
        must(ibv_req_notify_cq(pair.b.received, 0) == 0, "ibv_req_notify_cq");
#endif
        must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    }

    end_flush(&pair.b); // the region is in use as long as the message wasn't polled
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
