// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion has failed, and the program goes on to post to the queue pair as if it hadn't.
//
// What happens: a queue pair in error takes requests, and ends each of them with IBV_WC_WR_FLUSH_ERR; some
// drivers refuse them instead. Nothing of what the program sends from now on arrives. One that tries again
// without a look at the status does so without end.
//
// Reported: YDB's block store posted a receive again after one had failed, and lost a send over the error
// (ydb-platform/nbs 2690).
//
// Remedy: after a failed completion a reliable queue pair is of no more use. Connect anew, and send again
// what isn't complete.
#include <string.h>

#include "pair.h"

struct state {
    struct pair pair;
    struct ibv_mr* source;
    struct ibv_mr* target;
};

static char from[64] = "what a sends", to[64];

static void start(struct state* state) {
    const struct options options = {0};
    pair_open(&state->pair, &options);
    pair_connect(&state->pair);
    state->source = register_memory(&state->pair, from, sizeof from, 0);
    state->target = register_memory(&state->pair, to, sizeof to, 0);
    post_receive(&state->pair.a, state->target, to, sizeof to);
    post_receive(&state->pair.b, state->target, to, sizeof to);
}

static void stop(struct state* state) {
    end_flush(&state->pair.a);
    end_flush(&state->pair.b);
    must(ibv_dereg_mr(state->source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(state->target) == 0, "ibv_dereg_mr");
    pair_close(&state->pair);
}

int main(void) {
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    const char* symptom = NULL;
    struct state state;

    start(&state);
    must(ibv_modify_qp(state.pair.a.id->qp, &error, IBV_QP_STATE) == 0, "ibv_modify_qp"); // a link went down
    must(await_received(&state.pair.a).status == IBV_WC_WR_FLUSH_ERR, "a receive that is flushed");
#ifdef CORRECTED
    stop(&state);
    start(&state);
#endif
    post_message(&state.pair.a, state.source, from, sizeof from);
    const struct ibv_wc sent = await_sent(&state.pair.a);
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the message fails", sent.status);
    } else if (await_received(&state.pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the message isn't there";
    }

    stop(&state);
    return verdict(symptom);
}
