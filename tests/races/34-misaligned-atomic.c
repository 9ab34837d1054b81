// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an Atomic names eight bytes of the peer's that don't begin at a multiple of eight.
//
// What happens: some drivers refuse the post, some devices fail the request with a remote invalid request
// error, and the queue pair with it. The structure that holds the counter was packed, or the counter stands
// behind a header of odd length.
//
// Reported: Open MPI took a counter in its own control structures that wasn't aligned, and UCX refused it
// (open-mpi/ompi 7813).
//
// Remedy: align what Atomics work on, and the structures that hold it; give its address to the peer, and
// never one that is computed from a packed layout.
#include <errno.h>
#include <string.h>

#include "pair.h"

struct __attribute__((packed, aligned(8))) shared_state {
    char lock;
#ifdef CORRECTED
    char padding[7];
#endif
    uint64_t counter;
};

int main(void) {
    static struct shared_state state = {.counter = 5};
    static uint64_t before;
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const result = register_memory(&pair, &before, sizeof before, 0);
    struct ibv_mr* const target = register_memory(&pair, &state, sizeof state, IBV_ACCESS_REMOTE_ATOMIC);
    const struct remote remote = {(uintptr_t)&state + offsetof(struct shared_state, counter), target->rkey};

    const int error = post_add(&pair.a, result, &before, sizeof before, remote, 2);
    if (error != 0) {
        symptom = strerror(error);
    } else {
        const struct ibv_wc added = await_sent(&pair.a);
        if (added.status != IBV_WC_SUCCESS) {
            symptom = with_status("the Atomic fails", added.status);
        } else if (before != 5 || state.counter != 7) {
            symptom = "the Atomic succeeds, and its sum is wrong";
        }
    }

    must(ibv_dereg_mr(result) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
