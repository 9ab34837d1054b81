// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an atomic operation's result has four bytes of memory.
//
// What happens: what was there before comes back with eight bytes, whatever the program counts. Where its
// memory is shorter, the operation fails with a local length error behind the addition: the peer's counter
// has moved, and nobody knows where it was. Other devices refuse the post.
//
// Remedy: eight bytes for each result, also where counters are small.
#include "pair.h"

int main(void) {
    static uint64_t before = 7, count = 41;
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;
    uint32_t room = sizeof(uint32_t);

#ifdef CORRECTED
    room = sizeof before;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const result = register_memory(&pair, &before, sizeof before, 0);
    struct ibv_mr* const counter = register_memory(&pair, &count, sizeof count, IBV_ACCESS_REMOTE_ATOMIC);
    const struct remote remote = {(uintptr_t)&count, counter->rkey};

    const int error = post_add(&pair.a, result, &before, room, remote, 1);
    if (error != 0) {
        symptom = "the Atomic is refused";
    } else {
        const struct ibv_wc added = await_sent(&pair.a);
        if (added.status != IBV_WC_SUCCESS) {
            symptom = with_status("the Atomic fails", added.status);
        } else if (before != 41 || count != 42) {
            symptom = "the Atomic succeeds, and its result isn't there";
        }
    }

    must(ibv_dereg_mr(result) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(counter) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
