// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: memory that peers count in by atomic operations is registered for their Reads and Writes alone.
//
// What happens: the first atomic operation fails with a remote access error, and the connection is gone. The
// rights to write and to read don't include this one.
//
// Remedy: register it with IBV_ACCESS_REMOTE_ATOMIC, too.
#include "pair.h"

int main(void) {
    static uint64_t before = 7, count = 41;
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;
    int right_to_count = 0;

#ifdef CORRECTED
    right_to_count = IBV_ACCESS_REMOTE_ATOMIC;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const result = register_memory(&pair, &before, sizeof before, 0);
    struct ibv_mr* const counter = register_memory(&pair, &count, sizeof count, right_to_count);
    const struct remote remote = {(uintptr_t)&count, counter->rkey};

    must(post_add(&pair.a, result, &before, sizeof before, remote, 1) == 0, "an Atomic");
    const struct ibv_wc added = await_sent(&pair.a);
    if (added.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Atomic fails", added.status);
    } else if (before != 41 || count != 42) {
        symptom = "the Atomic succeeds, and nothing was added";
    }

    must(ibv_dereg_mr(result) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(counter) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
