// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a region is registered without IBV_ACCESS_REMOTE_WRITE, and the peer shall write to it.
//
// What happens: the Write fails at the peer with a remote access error, and both queue pairs are gone. The
// side that made the mistake has no completion, only a connection that ends.
//
// Reported: RCCL's queue pair for flushes lost this right in a merge, and its Write failed
// (ROCm/rocm-systems 11183); on iWARP the target of a Read needs it, too, which libfabric had to learn
// (ofiwg/libfabric 3521).
//
// Remedy: give each region the rights of all requests that name it, on both sides: local write for receives
// and Reads, remote write, remote read and remote atomic for the peer's. Remote write and remote atomic are
// only to be had together with local write.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
#ifdef CORRECTED
    access |= IBV_ACCESS_REMOTE_WRITE;
#endif
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = ibv_reg_mr(pair.pd, to, sizeof to, access);
    must(target != NULL, "ibv_reg_mr");
    const struct remote remote = {(uintptr_t)to, target->rkey};

    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
    if (written.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Write fails", written.status);
    } else if (memcmp(from, to, sizeof to) != 0) {
        symptom = "the Write succeeds, and its bytes aren't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
