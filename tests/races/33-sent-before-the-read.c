// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a Send is posted behind a Read, and takes what the Read brings, without a fence or a wait.
//
// What happens: requests begin in the order of their posts, but a Read ends when its answer is there, and a
// Send that is posted behind it may leave before. The peer gets what was in the buffer, or a half of each.
// On one machine the answer is nearly always there.
//
// Reported: UCX, where a later Write overtook a Read (openucx/ucx 7215).
//
// Remedy: IBV_SEND_FENCE for the first request that needs a Read's or an Atomic's data, or a wait for the
// completion.
#include <string.h>

#include "pair.h"

enum { BYTES = 65536 };

int main(void) {
    static char question[64] = "a question", inbox[64], data[BYTES] = "b's data", copy[BYTES], answer[BYTES];
    const struct options options = {0};
    const struct remote nowhere = {0, 0};
    struct pair pair;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const own = register_memory(&pair, question, sizeof question, 0);
    struct ibv_mr* const sink = register_memory(&pair, copy, BYTES, 0);
    struct ibv_mr* const peers = register_memory(&pair, inbox, sizeof inbox, 0);
    struct ibv_mr* const source = register_memory(&pair, data, sizeof data, 0);
    struct ibv_mr* const target = register_memory(&pair, answer, sizeof answer, 0);
    const struct remote remote = {(uintptr_t)data, source->rkey};

    post_message(&pair.a, own, question, sizeof question); // b is late to post a receive for it
    must(post(&pair.a, IBV_WR_RDMA_READ, sink, copy, BYTES, remote, IBV_SEND_SIGNALED) == 0, "a Read");
    unsigned flags = IBV_SEND_SIGNALED;
#ifdef CORRECTED
    flags |= IBV_SEND_FENCE;
#endif
    must(post(&pair.a, IBV_WR_SEND, sink, copy, BYTES, nowhere, flags) == 0, "a Send");

    post_receive(&pair.b, peers, inbox, sizeof inbox);
    post_receive(&pair.b, target, answer, sizeof answer);
    for (int i = 0; i < 3; ++i) {
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a request");
    }
    for (int i = 0; i < 2; ++i) {
        must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    }
    const int right = memcmp(answer, data, sizeof data) == 0;

    must(ibv_dereg_mr(own) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(sink) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(peers) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "b gets what was in a's buffer before the Read");
}
