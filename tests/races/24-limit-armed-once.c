// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a shared receive queue's limit is armed once, and not again behind its event.
//
// What happens: IBV_EVENT_SRQ_LIMIT_REACHED comes once for each ibv_modify_srq() that sets the limit. The
// first event refills the queue, and the second one never comes. The queue runs empty, and the messages of
// all its connections wait, or fail with "RNR retry counter exceeded".
//
// Reported: UCX hung when a short shared queue ran out of receives (openucx/ucx 10505).
//
// Remedy: refill, then arm the limit again.
#include <errno.h>

#include "pair.h"

enum { BUFFERS = 8, LIMIT = 4, BYTES = 64, BURST = BUFFERS - LIMIT + 1, BURSTS = 3 };

static void arm_limit(struct pair* pair) {
    struct ibv_srq_attr attr = {.srq_limit = LIMIT};
    errno = ibv_modify_srq(pair->shared, &attr, IBV_SRQ_LIMIT);
    must(errno == 0, "ibv_modify_srq");
}

// a sends BURST messages, each when the last one is done, and b notes their buffers in TAKEN. What fails, or
// null.
static const char* send_burst(struct pair* pair, const struct ibv_mr* source, const char* from,
                              uint64_t* taken) {
    for (int i = 0; i < BURST; ++i) {
        post_message(&pair->a, source, from, BYTES);
        const struct ibv_wc sent = await_sent(&pair->a);
        if (sent.status != IBV_WC_SUCCESS) {
            return with_status("a message fails", sent.status);
        }
        const struct ibv_wc received = await_received(&pair->b);
        must(received.status == IBV_WC_SUCCESS, "a receive");
        taken[i] = received.wr_id;
    }
    return NULL;
}

int main(void) {
    static char from[BYTES] = "a message", to[BUFFERS][BYTES];
    const struct options options = {.no_retries = 1, .shared_places = BUFFERS};
    const char* symptom = NULL;
    uint64_t taken[BURST] = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < BUFFERS; ++i) {
        post_shared(&pair, target, to[i], BYTES);
    }
    arm_limit(&pair);

    for (int burst = 0; burst < BURSTS && symptom == NULL; ++burst) {
        symptom = send_burst(&pair, source, from, taken);
        if (symptom == NULL && device_reports(pair.b.id->verbs, IBV_EVENT_SRQ_LIMIT_REACHED, patience_ms())) {
            for (int i = 0; i < BURST; ++i) {
                post_shared(&pair, target, (void*)(uintptr_t)taken[i], BYTES);
            }
#ifdef CORRECTED
            arm_limit(&pair);
#endif
        }
    }

    pair_destroy_shared(&pair);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
