// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a memory window is bound anew, and the peer uses the key from before.
//
// What happens: each bind gives the window another key, and the one before is void. The peer's Write fails
// with a remote access error, and the connection is gone.
//
// Reported: pyverbs kept the key from before a bind in its object, so that programs handed out a void one
// (linux-rdma/rdma-core 1777); YDB's block store discusses when a window that is used again may get its key
// (ydb-platform/nbs 6542).
//
// Remedy: read the window's key after each ibv_bind_mw(), and tell the peer.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mw* const window = make_window(&pair, IBV_MW_TYPE_1);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, IBV_ACCESS_MW_BIND);
    bind_window(&pair.b, window, target);
    struct remote remote = {(uintptr_t)to, window->rkey}; // b has told a

    bind_window(&pair.b, window, target);
#ifdef CORRECTED
    remote.key = window->rkey; // b has told a again
#endif
    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
    if (written.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Write fails", written.status);
    } else if (memcmp(from, to, sizeof to) != 0) {
        symptom = "the Write succeeds, and its bytes aren't there";
    }

    must(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
