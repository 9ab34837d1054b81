// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a request is used again, and its `next` still names the one that followed it then.
//
// What happens: ibv_post_send() posts a list. The request of before goes out a second time, with what its
// memory holds by now; where it was freed meanwhile, the program crashes.
//
// Remedy: set `next` each time a request is posted.
#include <string.h>

#include "pair.h"

enum { RECEIVES = 4, BYTES = 8 };

int main(void) {
    static char from[2][BYTES] = {"first", "second"}, to[RECEIVES][BYTES];
    const struct options options = {0};
    struct ibv_send_wr* bad = NULL;
    struct ibv_wc received;
    struct pair pair;
    unsigned times = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < RECEIVES; ++i) {
        post_receive(&pair.b, target, to[i], BYTES);
    }
    struct ibv_sge pieces[2] = {{(uintptr_t)from[0], BYTES, source->lkey},
                                {(uintptr_t)from[1], BYTES, source->lkey}};
    struct ibv_send_wr second = {
        .sg_list = &pieces[1], .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr first = {.next = &second,
                                .sg_list = &pieces[0],
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED};
    must(ibv_post_send(pair.a.id->qp, &first, &bad) == 0, "ibv_post_send");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");

    strcpy(from[0], "third");
#ifdef CORRECTED
    first.next = NULL;
#endif
    must(ibv_post_send(pair.a.id->qp, &first, &bad) == 0, "ibv_post_send");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");

    for (int i = 0; i < RECEIVES - 1; ++i) {
        must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    }
    if (poll_for(pair.b.received, patience_ms() / 10, &received)) {
        --pair.b.receives;
    }
    for (int i = 0; i < RECEIVES; ++i) {
        times += strcmp(to[i], "second") == 0;
    }
    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(times == 1 ? NULL : "b has received \"second\" twice");
}
