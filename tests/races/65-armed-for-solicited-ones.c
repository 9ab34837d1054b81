// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a queue is armed for solicited completions, and its peer solicits none.
//
// What happens: with the second argument of ibv_req_notify_cq() set, only messages that were sent with
// IBV_SEND_SOLICITED, and failures, make an event. All others lie in the queue, and the program sleeps.
//
// Remedy: arm with 0; or agree with the peer which messages it sends with IBV_SEND_SOLICITED.
#include "pair.h"

int main(void) {
    static char from[8] = "hello", to[8];
    const struct options options = {0};
    struct ibv_wc completion;
    struct pair pair;
    int got = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
    int only_solicited = 1;
#ifdef CORRECTED
    only_solicited = 0;
#endif
    must(ibv_req_notify_cq(pair.b.received, only_solicited) == 0, "ibv_req_notify_cq");
    must(ibv_poll_cq(pair.b.received, 1, &completion) == 0, "an empty queue");
    post_message(&pair.a, source, from, sizeof from);
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    if (take_event(&pair.b)) {
        got = ibv_poll_cq(pair.b.received, 1, &completion);
        --pair.b.receives;
    }

    end_flush(&pair.b); // the region is in use as long as the message wasn't polled
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(got == 1 ? NULL : "no event comes, and the message lies in the queue");
}
