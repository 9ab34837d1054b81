// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: memory is registered anew, and the peer goes on with the key of the first registration.
//
// What happens: the peer's next Write fails with a remote access error, and the connection is gone. A
// program that connects again and repeats the request with the same key fails in the same way, without end.
// If the key has been given to another region meanwhile, the Write succeeds, in memory that was never meant.
//
// Reported: Mooncake keeps what it knows of a peer's memory, also after the peer has registered it anew
// (kvcache-ai/Mooncake 3737), and didn't say that a region is gone (kvcache-ai/Mooncake 1485).
//
// Remedy: a key is valid as long as its registration; the owner says when it ends, and what the new key is.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* target = register_memory(&pair, to, sizeof to, 0);
    struct remote remote = {(uintptr_t)to, target->rkey}; // b has told a

    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    target = register_memory(&pair, to, sizeof to, 0);
#ifdef CORRECTED
    remote.key = target->rkey; // b has told a again
#endif
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
