// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a connection is made with initiator_depth and responder_resources 0, and then carries Reads.
//
// What happens: both say how many Reads and atomic operations may be on their way. A `struct rdma_conn_param`
// that was cleared and has no more than its retry counters filled in agrees on none. Sends and Writes go
// well; the first Read fails, or is refused.
//
// Remedy: ask for as many as there shall be at a time, at both ends; 1 is enough for one after the other.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what b holds", to[64];
    struct options options = {.no_reads = 1};
    const char* symptom = NULL;
    struct pair pair;

#ifdef CORRECTED
    options.no_reads = 0;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    const struct remote remote = {(uintptr_t)from, source->rkey};

    const int error = post(&pair.a, IBV_WR_RDMA_READ, target, to, sizeof to, remote, IBV_SEND_SIGNALED);
    if (error != 0) {
        symptom = "the Read is refused";
    } else {
        const struct ibv_wc read = await_sent(&pair.a);
        if (read.status != IBV_WC_SUCCESS) {
            symptom = with_status("the Read fails", read.status);
        } else if (memcmp(from, to, sizeof to) != 0) {
            symptom = "the Read succeeds, and brings nothing";
        }
    }

    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
