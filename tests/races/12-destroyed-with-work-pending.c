// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a queue pair is destroyed while requests are posted, and the program waits for their completions.
//
// What happens: a queue pair that is gone completes nothing, and takes completions that weren't polled with
// it. The buffers of these requests are never given back: the program leaks them, or waits for them without
// end.
//
// Reported: gloo destroyed queue pairs with receives posted (pytorch/gloo 247); Ceph had to move them to
// error first (ceph/ceph 25447); Mooncake posted to a queue pair that another thread was destroying
// (kvcache-ai/Mooncake 1903).
//
// Remedy: move the queue pair to error, poll until each request has come back, then destroy it.
#include <stdio.h>

#include "pair.h"

enum { BUFFERS = 4 };

int main(void) {
    static char buffers[BUFFERS][64];
    const struct options options = {0};
    static char symptom[100];
    struct ibv_wc completion;
    struct pair pair;
    int back = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const target = register_memory(&pair, buffers, sizeof buffers, 0);
    for (int i = 0; i < BUFFERS; ++i) {
        post_receive(&pair.b, target, buffers[i], sizeof buffers[i]);
    }

#ifdef CORRECTED
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    must(ibv_modify_qp(pair.b.id->qp, &error, IBV_QP_STATE) == 0, "ibv_modify_qp");
    for (; back < BUFFERS; ++back) {
        must(await_received(&pair.b).status == IBV_WC_WR_FLUSH_ERR, "a receive that is flushed");
    }
#endif
    end_destroy_qp(&pair.b);
    while (ibv_poll_cq(pair.b.received, 1, &completion) == 1) {
        ++back; // nothing comes later than this
    }
    snprintf(symptom, sizeof symptom, "%d of %d buffers have come back", back, BUFFERS);

    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(back == BUFFERS ? NULL : symptom);
}
