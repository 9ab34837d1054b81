// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a request has more pieces than the queue pair was granted.
//
// What happens: ibv_post_send() answers EINVAL or ENOMEM, depending on the driver. ENOMEM is also what a full
// queue answers, so that the program waits for completions that don't help. Most requests have one or two
// pieces, and the one with more comes when memory is fragmented.
//
// Reported: SPDK's target, with a device that takes fewer pieces than others (spdk/spdk 640), and where
// checksums had cut a request into many (spdk/spdk 2401).
//
// Remedy: ask for max_send_sge when the queue pair is made, and copy together what doesn't fit.
#include <errno.h>
#include <string.h>

#include "pair.h"

enum { PIECES = 3, BYTES = 64 };

static int post_pieces(struct end* end, const struct ibv_mr* region, char from[PIECES][BYTES]) {
    struct ibv_sge pieces[PIECES];
    for (int i = 0; i < PIECES; ++i) {
        const struct ibv_sge piece = {.addr = (uintptr_t)from[i], .length = BYTES, .lkey = region->lkey};
        pieces[i] = piece;
    }
    struct ibv_send_wr request = {
        .opcode = IBV_WR_SEND, .sg_list = pieces, .num_sge = PIECES, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad = NULL;
    return ibv_post_send(end->id->qp, &request, &bad);
}

int main(void) {
    static char from[PIECES][BYTES] = {"a header", "and its data", "and a trailer"}, to[PIECES][BYTES];
    struct options options = {.send_pieces = 1};
    const char* symptom = NULL;
    struct pair pair;

#ifdef CORRECTED
    options.send_pieces = PIECES;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);

    const int error = post_pieces(&pair.a, source, from);
    if (error != 0) {
        symptom = strerror(error);
    } else if (await_sent(&pair.a).status != IBV_WC_SUCCESS ||
               await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the message is accepted, and isn't there";
    }

    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
