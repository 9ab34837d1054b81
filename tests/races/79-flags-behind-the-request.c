// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: wr_flags is set behind ibv_wr_send(), together with what the message consists of.
//
// What happens: the calls that begin a request (ibv_wr_send(), ibv_wr_rdma_write() ...) take wr_id and
// wr_flags as they are at that moment; only the setters come later. The message goes out without a
// completion, and the program waits for one without end.
//
// Remedy: set wr_id and wr_flags before each request begins.
#include <string.h>

#include "pair.h"

enum { BYTES = 64 };

static void send_by_calls(struct end* end, const struct ibv_mr* region, void* local) {
    struct ibv_qp_ex* const qp = end_by_calls(end);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = 0;
#ifdef CORRECTED
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
#else
    ibv_wr_send(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
#endif
    ibv_wr_set_sge(qp, region->lkey, (uintptr_t)local, BYTES);
    must(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
}

int main(void) {
    static char from[BYTES] = "what a sends", to[BYTES];
    const struct options options = {.operations = IBV_QP_EX_WITH_SEND};
    const char* symptom = NULL;
    struct ibv_wc sent;
    struct pair pair;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
    pair_connect(&pair);

    send_by_calls(&pair.a, source, from);
    must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    if (!poll_for(pair.a.sent, patience_ms(), &sent)) {
        symptom = "the message arrives, and its completion never comes";
    } else if (sent.status != IBV_WC_SUCCESS || strcmp(from, to) != 0) {
        symptom = "the message fails";
    }

    end_destroy_qp(&pair.a);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
