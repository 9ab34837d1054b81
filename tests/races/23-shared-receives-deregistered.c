// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a program deregisters memory whose receives are still in a shared receive queue.
//
// What happens: a queue pair that moves to error brings its own receives back, and none of a shared queue.
// Those wait there for the messages of other connections. The next message that finds one of them fails with
// a local protection error, and a connection ends that had nothing to do with the first one.
//
// Remedy: a shared queue's memory belongs to the queue. Deregister it behind ibv_destroy_srq().
#include <string.h>

#include "pair.h"

enum { BUFFERS = 4, BYTES = 64 };

// a sends a message. Returns how it has come to b.
static struct ibv_wc talk(struct pair* pair, const struct ibv_mr* source, const char* from) {
    post_message(&pair->a, source, from, BYTES);
    await_sent(&pair->a);
    return await_received(&pair->b);
}

int main(void) {
    static char from[BYTES] = "what a sends", to[BUFFERS][BYTES];
    const struct options options = {.shared_places = BUFFERS};
    const char* symptom = NULL;
    struct ibv_wc received;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < BUFFERS; ++i) {
        post_shared(&pair, target, to[i], BYTES);
    }

#ifdef CORRECTED
    received = talk(&pair, source, from);
    pair_destroy_shared(&pair);
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
#else
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr"); // the connection that has brought it has ended
    received = talk(&pair, source, from);
    pair_destroy_shared(&pair);
#endif
    if (received.status != IBV_WC_SUCCESS) {
        symptom = with_status("the receive fails", received.status);
    } else if (memcmp(from, (const char*)(uintptr_t)received.wr_id, sizeof from) != 0) {
        symptom = "the receive succeeds, and the message isn't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
