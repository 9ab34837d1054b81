// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a buffer is freed when its message is posted, and not when it is complete.
//
// What happens: if the peer is late or a packet is lost, the device reads memory that is no longer the
// program's. A large block goes back to the kernel at once, and the message fails, or a device that pins
// pages sends what it finds there. A small block is used again, and the peer gets somebody else's bytes.
//
// Reported: YDB's block store, where a session that ended freed the buffers of its requests
// (ydb-platform/nbs 6220); libfabric's EFA provider, for most of its protocols (ofiwg/libfabric 12162).
//
// Remedy: free a buffer when the completion of the last request that names it was polled.
#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 1 << 20 };

// b takes the message at last. Returns how it has left.
static struct ibv_wc finish(struct pair* pair, const struct ibv_mr* target, void* to) {
    post_receive(&pair->b, target, to, BYTES);
    return await_sent(&pair->a);
}

int main(void) {
    char* const from = malloc(BYTES);
    static char to[BYTES];
    const struct options options = {0};
    const char* symptom = NULL;
    struct ibv_wc sent;
    struct pair pair;

    must(from != NULL, "malloc");
    memset(from, 'x', BYTES);
    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, BYTES, 0);
    struct ibv_mr* const target = register_memory(&pair, to, BYTES, 0);

    post_message(&pair.a, source, from, BYTES);
#ifdef CORRECTED
    sent = finish(&pair, target, to);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    free(from);
#else
    free(from);
    sent = finish(&pair, target, to);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
#endif
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the message fails", sent.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || to[0] != 'x' ||
               memcmp(to, to + 1, BYTES - 1) != 0) {
        symptom = "b receives something else";
    }

    end_flush(&pair.b);
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
