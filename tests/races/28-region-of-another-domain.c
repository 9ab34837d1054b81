// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a region is registered in another protection domain than the queue pair's.
//
// What happens: the post is accepted, and the request fails with a local protection error, although address,
// length and rights are right. It comes from caches of regions that look up an address alone, and from
// libraries that make a domain of their own for each connection.
//
// Reported: libevpl took the region of the first device, before the connection had one
// (chimera-nas/libevpl 89).
//
// Remedy: one domain for each device of a program, or the domain as a part of what the cache looks up.
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "what a sends", to[64];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_pd* const other = ibv_alloc_pd(pair.a.id->verbs);
    must(other != NULL, "ibv_alloc_pd");
#ifdef CORRECTED
    struct ibv_pd* const domain = pair.pd;
#else
    struct ibv_pd* const domain = other;
#endif
    struct ibv_mr* const source = ibv_reg_mr(domain, from, sizeof from, IBV_ACCESS_LOCAL_WRITE);
    must(source != NULL, "ibv_reg_mr");
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);

    post_message(&pair.a, source, from, sizeof from);
    const struct ibv_wc sent = await_sent(&pair.a);
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the message fails", sent.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the message isn't there";
    }

    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    must(ibv_dealloc_pd(other) == 0, "ibv_dealloc_pd");
    pair_close(&pair);
    return verdict(symptom);
}
