// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a request has IBV_SEND_INLINE, and more data than the queue pair takes inline.
//
// What happens: ibv_post_send() answers ENOMEM or EINVAL, depending on the driver. ENOMEM is also what a
// full queue answers, so that programs try again, without end. The limit differs from device to device: a
// program that was written for one fails on another, where somebody else meets it.
//
// Reported: MORI's notifications failed on devices that grant nothing unasked (ROCm/mori 424); perftest's
// default was too large for some (linux-rdma/perftest 139); libfabric's EFA provider set the flag whatever
// the size (ofiwg/libfabric 6952).
//
// Remedy: ask for max_inline_data when the queue pair is made, read what is granted, and compare each
// request with it.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[4096] = "a message of a page", to[4096];
    const struct options options = {0}; // asks for no inline data
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    const struct remote remote = {(uintptr_t)to, target->rkey};

    unsigned flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
#ifdef CORRECTED
    flags = sizeof from <= pair.a.cap.max_inline_data ? flags : IBV_SEND_SIGNALED;
#endif
    const int error = post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, flags);
    if (error != 0) {
        symptom = strerror(error);
    } else if (await_sent(&pair.a).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the Write is accepted, and its bytes aren't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
