// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the program uses what a Read shall bring, before the Read's completion.
//
// What happens: it sees what was in the buffer before, or a half of the data. A Read waits for its turn
// behind all that was posted before it: here behind a message for which the peer is late. On a quiet machine
// the data is nearly always there.
//
// Reported: perftest's latency test took old bytes for an answer (linux-rdma/perftest 9); librpma's examples
// looked before a completion was there (pmem/rpma 231); DeepEP reused buffers while Writes to them were
// under way (deepseek-ai/DeepEP 310).
//
// Remedy: the completion of this very request, with success, is what says that its data is there.
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 65536 };

// b posts its receive at last, and both requests of a's end.
static void finish(struct pair* pair, const struct ibv_mr* inbox, char* to, size_t bytes) {
    post_receive(&pair->b, inbox, to, bytes);
    for (int i = 0; i < 2; ++i) {
        must(await_sent(&pair->a).status == IBV_WC_SUCCESS, "a request");
    }
    must(await_received(&pair->b).status == IBV_WC_SUCCESS, "a receive");
}

int main(void) {
    static char question[64] = "a question", inbox[64], data[BYTES] = "b's data", seen[BYTES];
    char* const copy = whole_pages(BYTES);
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const own = register_memory(&pair, question, sizeof question, 0);
    struct ibv_mr* const sink = register_memory(&pair, copy, BYTES, 0);
    struct ibv_mr* const peers = register_memory(&pair, inbox, sizeof inbox, 0);
    struct ibv_mr* const source = register_memory(&pair, data, sizeof data, 0);
    const struct remote remote = {(uintptr_t)data, source->rkey};

    post_message(&pair.a, own, question, sizeof question);
    must(post(&pair.a, IBV_WR_RDMA_READ, sink, copy, BYTES, remote, IBV_SEND_SIGNALED) == 0, "a Read");
#ifdef CORRECTED
    finish(&pair, peers, inbox, sizeof inbox);
    memcpy(seen, copy, sizeof seen);
#else
    memcpy(seen, copy, sizeof seen);
    finish(&pair, peers, inbox, sizeof inbox);
#endif
    const int right = memcmp(seen, data, sizeof data) == 0;

    must(ibv_dereg_mr(own) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(sink) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(peers) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    free(copy);
    return verdict(right ? NULL : "a has used what was in the buffer before the Read");
}
