// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: the memory that a Read shall fill is registered without IBV_ACCESS_LOCAL_WRITE.
//
// What happens: the post is accepted, and the Read fails with a local protection error, and so do receives.
// The name misleads: "local write" is what the device needs to write to this side's memory, whatever the
// program itself may do there.
//
// Reported: an example of libfabric's had only the right to be read by the peer on the region that a Read
// fills (ofiwg/fabtests 410); libfabric's EFA provider, where it does a peer's Write by a Read of its own
// (ofiwg/libfabric 11150).
//
// Remedy: IBV_ACCESS_LOCAL_WRITE for everything that a receive, a Read or an Atomic fills.
#include <string.h>

#include "pair.h"

int main(void) {
    static char data[64] = "b's data", copy[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    int access = IBV_ACCESS_REMOTE_READ;
#ifdef CORRECTED
    access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE; // the second for iWARP
#endif
    struct ibv_mr* const source = register_memory(&pair, data, sizeof data, 0);
    struct ibv_mr* const sink = ibv_reg_mr(pair.pd, copy, sizeof copy, access);
    must(sink != NULL, "ibv_reg_mr");
    const struct remote remote = {(uintptr_t)data, source->rkey};

    must(post(&pair.a, IBV_WR_RDMA_READ, sink, copy, sizeof copy, remote, IBV_SEND_SIGNALED) == 0, "a Read");
    const struct ibv_wc read = await_sent(&pair.a);
    if (read.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Read fails", read.status);
    } else if (memcmp(data, copy, sizeof copy) != 0) {
        symptom = "the Read succeeds, and its bytes aren't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(sink) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
