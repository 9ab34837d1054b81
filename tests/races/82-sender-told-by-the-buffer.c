// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the buffer of a shared receive tells the program which connection a message came by.
//
// What happens: a shared receive queue gives its receives to whatever queue pair gets a message first. A
// program that had a buffer for each connection, and was moved to a shared queue, takes one client's message
// for another's, as soon as they don't come in the order in which their receives were posted.
//
// Remedy: wc.qp_num names the queue pair that has received.
#include "pair.h"

enum { ENDS = 2, BYTES = 8 };

static char buffers[ENDS][BYTES];

// The receiver of the message: 0 for a, 1 for b.
static int owner_of(const struct pair* pair, struct ibv_wc received) {
    must(received.status == IBV_WC_SUCCESS, "a receive");
#ifdef CORRECTED
    return received.qp_num == pair->b.id->qp->qp_num;
#else
    (void)pair;
    return received.wr_id == (uintptr_t)buffers[1];
#endif
}

int main(void) {
    static char from[BYTES] = "hello";
    const struct options options = {.shared_places = ENDS};
    struct pair pair;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, buffers, sizeof buffers, 0);
    for (int i = 0; i < ENDS; ++i) {
        post_shared(&pair, target, buffers[i], BYTES);
    }
    pair_connect(&pair);

    post_message(&pair.a, source, from, BYTES); // to b, and before b's to a
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    post_message(&pair.b, source, from, BYTES);
    must(await_sent(&pair.b).status == IBV_WC_SUCCESS, "a message");
    const int right = owner_of(&pair, await_completion(pair.b.received)) == 1 &&
                      owner_of(&pair, await_completion(pair.a.received)) == 0;

    pair_destroy_shared(&pair);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "a's message is taken for b's");
}
