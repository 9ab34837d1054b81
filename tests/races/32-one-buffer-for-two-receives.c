// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: two receives that are posted at the same time name the same memory.
//
// What happens: the second message overwrites the first one before the program has seen that. Both
// completions succeed, and both say that the same message is there. As long as the peer waits for an answer
// to each message, the program works.
//
// Reported: MPICH posted a buffer again before it had processed the messages in it (pmodels/mpich 3632).
//
// Remedy: memory of its own for each receive, and a receive is posted again when its message is processed.
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 64 };

int main(void) {
    static char from[2][BYTES] = {"first", "second"}, to[2][BYTES];
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
#ifdef CORRECTED
    char* const next = to[1];
#else
    char* const next = to[0];
#endif
    post_receive(&pair.b, target, to[0], BYTES);
    post_receive(&pair.b, target, next, BYTES);

    for (int i = 0; i < 2; ++i) {
        post_message(&pair.a, source, from[i], BYTES);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    }
    int right = 1;
    for (int i = 0; i < 2; ++i) {
        const struct ibv_wc received = await_received(&pair.b);
        must(received.status == IBV_WC_SUCCESS, "a receive");
        right &= strcmp((const char*)(uintptr_t)received.wr_id, from[i]) == 0;
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "b has received \"second\" twice");
}
