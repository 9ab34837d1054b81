// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a region is moved to a larger buffer by ibv_rereg_mr(), and the peer goes on with the address of
// before.
//
// What happens: the key is the same here, and may be another one on other devices, but the addresses that it
// opens are those of the new buffer. The peer's Write fails with a remote access error, and the connection is
// gone.
//
// Remedy: after ibv_rereg_mr() tell the peer address and key again, before it writes anything more.
#include <errno.h>
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a writes", small[64], large[4096];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, small, sizeof small, 0);
    struct remote remote = {(uintptr_t)small, target->rkey}; // b has told a

    errno = ibv_rereg_mr(target, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, large, sizeof large, 0);
    must(errno == 0, "ibv_rereg_mr");
#ifdef CORRECTED
    remote.address = (uintptr_t)large; // b has told a again
    remote.key = target->rkey;
#endif
    must(post(&pair.a, IBV_WR_RDMA_WRITE, source, from, sizeof from, remote, IBV_SEND_SIGNALED) == 0,
         "a Write");
    const struct ibv_wc written = await_sent(&pair.a);
    if (written.status != IBV_WC_SUCCESS) {
        symptom = with_status("the Write fails", written.status);
    } else if (memcmp(from, large, sizeof from) != 0) {
        symptom = "the Write succeeds, and its bytes aren't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
