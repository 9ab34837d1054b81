// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a Read is posted with IBV_SEND_INLINE, as small messages are.
//
// What happens: inline data goes out with the request, and a Read sends none. Devices refuse the post, or
// take the Read without the flag, or copy what is in the buffer and bring nothing back.
//
// Remedy: IBV_SEND_INLINE belongs to Sends and Writes.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[16] = "what b holds", to[16];
    const struct options options = {.inline_bytes = 64};
    const char* symptom = NULL;
    struct pair pair;
    unsigned flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;

#ifdef CORRECTED
    flags = IBV_SEND_SIGNALED;
#endif
    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    const struct remote remote = {(uintptr_t)from, source->rkey};

    const int error = post(&pair.a, IBV_WR_RDMA_READ, target, to, sizeof to, remote, flags);
    if (error != 0) {
        symptom = strerror(error);
    } else if (await_sent(&pair.a).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the Read is accepted, and brings nothing";
    }

    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
