// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a connection is accepted before the first receive is posted.
//
// What happens: the peer may send as soon as the connection is up. If its message finds no receive, it is
// tried again as often as rnr_retry says: not at all where that is 0, which is the default of many programs.
// Then the message fails, and the connection with it. With 7 it is tried without end, and the program loses
// up to half a second each time.
//
// Reported: SPDK's connections failed now and then (spdk/spdk 2429); a driver for Thunderbolt makes 7 its
// default for this reason (hellas-ai/thunderbolt-ibverbs 71); Mooncake forgot its receives when it connected
// again (kvcache-ai/Mooncake 1567).
//
// Remedy: post receives when the queue pair is made, before rdma_accept() or rdma_connect().
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "hello", to[64];
    const struct options options = {.no_retries = 1};
    const char* symptom = NULL;
    struct ibv_wc sent;
    struct pair pair;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
#ifdef CORRECTED
    post_receive(&pair.b, target, to, sizeof to);
    pair_connect(&pair);
    post_message(&pair.a, source, from, sizeof from);
    sent = await_sent(&pair.a);
#else
    pair_connect(&pair);
    post_message(&pair.a, source, from, sizeof from);
    sent = await_sent(&pair.a);
    post_receive(&pair.b, target, to, sizeof to);
#endif
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the first message fails", sent.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the first message isn't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
