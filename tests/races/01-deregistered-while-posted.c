// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a region is deregistered while a receive that names it is still posted.
//
// What happens: the next message has nowhere to go. The receive ends with an error, the sender's request
// too, and both queue pairs are of no more use. Where the driver is late to forget the key, the device
// writes into memory that belongs to somebody else by then.
//
// Reported: DAOS freed a bulk buffer before its handle, and repeated transfers went into freed memory
// (daos-stack/daos 12965); torchcomms gave memory back although its deregistration had failed
// (meta-pytorch/torchcomms 4209).
//
// Remedy: await the completion of each request that names a region, then deregister it.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a sends";
    static char to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;
    struct ibv_wc received;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);

    post_receive(&pair.b, target, to, sizeof to);
#ifdef CORRECTED
    post_message(&pair.a, source, from, sizeof from);
    await_sent(&pair.a);
    received = await_received(&pair.b);
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
#else
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    post_message(&pair.a, source, from, sizeof from);
    await_sent(&pair.a);
    received = await_received(&pair.b);
#endif
    if (received.status != IBV_WC_SUCCESS) {
        symptom = with_status("the receive fails", received.status);
    } else if (memcmp(from, to, sizeof to) != 0) {
        symptom = "the receive succeeds, and the message isn't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
