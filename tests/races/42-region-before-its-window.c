// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a region is deregistered while a memory window is bound to it, and the answer isn't looked at.
//
// What happens: ibv_dereg_mr() answers EBUSY, and the region stays, with its pages. The peer may still write
// through the window to memory that the program takes for its own again.
//
// Reported: a user of NetworkDirect couldn't deregister, and leaked (microsoft/NetworkDirect 20); YDB's block
// store kept a window bound whose buffer went to another request (ydb-platform/nbs 6661).
//
// Remedy: first the window, by ibv_dealloc_mw(), a bind of no bytes or an invalidation; then its region.
#include <errno.h>
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;
    int error = 0;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mw* const window = make_window(&pair, IBV_MW_TYPE_1);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, IBV_ACCESS_MW_BIND);
    bind_window(&pair.b, window, target);
    const struct remote remote = {(uintptr_t)to, window->rkey};
    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a Write");
    const int right = memcmp(from, to, sizeof to) == 0;

#ifdef CORRECTED
    must(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
    error = ibv_dereg_mr(target);
#else
    error = ibv_dereg_mr(target);
    must(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
#endif
    if (error != 0) {
        symptom = strerror(error);
        must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr"); // so that the rest can be closed
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? symptom : "the Write's bytes aren't there");
}
