// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a function that has called ibv_wr_start() returns early, without ibv_wr_abort().
//
// What happens: from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort() the send queue is locked. The next
// ibv_wr_start() waits for a lock that the same thread holds. Drivers for a single thread have no lock; there
// the requests of before go out with the next ones.
//
// Remedy: ibv_wr_abort() on each way out.
#include <stdbool.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 64 };

static bool send_text(struct end* end, const struct ibv_mr* region, const char* text) {
    struct ibv_qp_ex* const qp = end_by_calls(end);
    const size_t length = strlen(text) + 1;
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    if (length > BYTES) {
#ifdef CORRECTED
        ibv_wr_abort(qp);
#endif
        return false;
    }
    memcpy(region->addr, text, length);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, region->lkey, (uintptr_t)region->addr, BYTES);
    must(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
    return true;
}

int main(void) {
    static const char too_long[] = "This text has more bytes than there are in one message of this program.";
    static char from[BYTES], to[BYTES];
    const struct options options = {.operations = IBV_QP_EX_WITH_SEND};
    struct pair pair;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
    pair_connect(&pair);

    watch("ibv_wr_start() doesn't return");
    must(!send_text(&pair.a, source, too_long), "a text that is too long");
    must(send_text(&pair.a, source, "a text"), "a text");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    const int right = strcmp(to, "a text") == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "the message isn't there");
}
