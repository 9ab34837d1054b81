// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: at the limit's event a shared receive queue is filled as if it were empty.
//
// What happens: the event comes while some receives are left. The queue has no places for all, the post is
// refused, and the buffers of the refused ones are in nobody's hands.
//
// Remedy: count what is posted, and post as many as have been taken.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { PLACES = 8, LIMIT = 4, TAKEN = PLACES - LIMIT + 1, BYTES = 64 };

static char to[2 * PLACES][BYTES];

// Posts the next COUNT buffers. Returns how many are accepted.
static unsigned fill(struct pair* pair, const struct ibv_mr* region, unsigned* next, unsigned count) {
    unsigned accepted = 0;
    for (; accepted < count; ++accepted) {
        struct ibv_sge piece = {
            .addr = (uintptr_t)to[*next % (2 * PLACES)], .length = BYTES, .lkey = region->lkey};
        struct ibv_recv_wr request = {.wr_id = piece.addr, .sg_list = &piece, .num_sge = 1};
        struct ibv_recv_wr* bad = NULL;
        errno = ibv_post_srq_recv(pair->shared, &request, &bad);
        if (errno != 0) {
            break;
        }
        ++*next;
    }
    return accepted;
}

int main(void) {
    static char from[BYTES] = "a message", symptom[100];
    const struct options options = {.shared_places = PLACES};
    struct ibv_srq_attr limit = {.srq_limit = LIMIT};
    struct pair pair;
    unsigned next = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    must(fill(&pair, target, &next, PLACES) == PLACES, "ibv_post_srq_recv");
    must(ibv_modify_srq(pair.shared, &limit, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
    for (int i = 0; i < TAKEN; ++i) {
        post_message(&pair.a, source, from, BYTES);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
        must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    }
    must(device_reports(pair.b.id->verbs, IBV_EVENT_SRQ_LIMIT_REACHED, 5000), "the limit's event");
    unsigned wanted = PLACES;
#ifdef CORRECTED
    wanted = TAKEN;
#endif
    const unsigned accepted = fill(&pair, target, &next, wanted);
    snprintf(symptom, sizeof symptom, "receive %u is refused: %s", accepted + 1, strerror(errno));

    pair_destroy_shared(&pair);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(accepted == wanted ? NULL : symptom);
}
