// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a Write with immediate data is sent, and the peer has posted no receive, since "a Write needs
// none".
//
// What happens: the number comes in a receive's completion. Where none is posted, the Write waits, or fails
// with "RNR retry counter exceeded", and the connection is gone.
//
// Remedy: a receive for each Write with immediate data, which may have no memory at all.
#include <arpa/inet.h>
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {.no_retries = 1};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    needs_retries(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    const struct remote remote = {(uintptr_t)to, target->rkey};
#ifdef CORRECTED
    post_receive(&pair.b, target, to, 0);
#endif
    pair_connect(&pair);

    must(post(&pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
    if (written.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Write fails", written.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the Write succeeds, and its bytes aren't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
