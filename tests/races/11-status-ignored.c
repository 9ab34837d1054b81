// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion's status isn't looked at, and a failed receive is taken for a message.
//
// What happens: when a connection ends, the receives that are still posted come back with
// IBV_WC_WR_FLUSH_ERR. In a failed completion only wr_id, status and qp_num mean something. The program
// finds its buffer by wr_id, and does once more what the last message in it asked for. One that posts the
// receive again gets the next failure at once.
//
// Reported: tensorpipe (pytorch/tensorpipe 416) and libfabric (ofiwg/libfabric 5653) relied on the opcode of
// failed completions, and crashed; YDB's block store posts again after a failure (ydb-platform/nbs 4533).
//
// Remedy: look at the status first, and at nothing but wr_id and qp_num if it isn't IBV_WC_SUCCESS.
#include <stdio.h>
#include <stdlib.h>

#include "pair.h"

struct order {
    unsigned pieces;
    char text[65536 - sizeof(unsigned)];
};

static unsigned stock = 100;

static void take(struct ibv_wc completion) {
#ifdef CORRECTED
    if (completion.status != IBV_WC_SUCCESS) {
        return; // the buffer is free again, and holds no message
    }
#endif
    const struct order* const order = (const struct order*)(uintptr_t)completion.wr_id;
    stock -= order->pieces;
}

int main(void) {
    static struct order from = {.pieces = 10};
    struct order* const to = whole_pages(sizeof *to);
    const struct options options = {0};
    static char symptom[100];
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, &from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof *to, 0);

    post_receive(&pair.b, target, to, sizeof *to);
    post_message(&pair.a, source, &from, sizeof from);
    take(await_received(&pair.b));
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    // For the next one, which doesn't come: the connection ends.
    post_receive(&pair.b, target, to, sizeof *to);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    must(ibv_modify_qp(pair.b.id->qp, &error, IBV_QP_STATE) == 0, "ibv_modify_qp");
    take(await_received(&pair.b));
    snprintf(symptom, sizeof symptom, "one order of 10 pieces, and %u of 100 are left", stock);

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    free(to);
    return verdict(stock == 90 ? NULL : symptom);
}
