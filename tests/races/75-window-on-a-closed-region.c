// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a window is bound to a region that was registered without IBV_ACCESS_MW_BIND.
//
// What happens: a region must allow windows. The bind is refused, or fails with a completion, and the queue
// pair goes to error with it.
//
// Remedy: register the region with IBV_ACCESS_MW_BIND; and with IBV_ACCESS_LOCAL_WRITE where the window lets
// peers write.
#include <errno.h>
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;
    int windows = 0;

#ifdef CORRECTED
    windows = IBV_ACCESS_MW_BIND;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mw* const window = make_window(&pair, IBV_MW_TYPE_1);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, windows);
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = target,
                                             .addr = (uintptr_t)to,
                                             .length = sizeof to,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    errno = ibv_bind_mw(pair.b.id->qp, window, &bind);
    if (errno != 0) {
        symptom = "the bind is refused";
    } else {
        const struct ibv_wc bound = await_sent(&pair.b);
        symptom = bound.status != IBV_WC_SUCCESS ? with_status("the bind fails", bound.status) : NULL;
    }
    if (symptom == NULL) {
        const struct remote remote = {(uintptr_t)to, window->rkey}; // b has told a
        must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
             "a Write");
        const int right = await_sent(&pair.a).status == IBV_WC_SUCCESS && memcmp(from, to, sizeof to) == 0;
        symptom = right ? NULL : "the Write's bytes aren't there";
    }

    must(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
