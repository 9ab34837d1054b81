// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a request's piece of memory is longer than the region whose key it has.
//
// What happens: the request fails with a local protection error, and the queue pair with it. Here the
// program has registered its data and forgotten the header in front of it. A device that rounds regions to
// pages lets a few bytes pass, so that it may work with one device, size or allocator, and fail with others.
//
// Reported: UCX sent from an address before the region that its cache had found (openucx/ucx 7863); a user
// of a binding for Rust couldn't find out what was out of bounds (Nugine/rdma 4); SPDK after hours
// (spdk/spdk 961).
//
// Remedy: register all that is sent, and take addresses and lengths from one place.
#include <string.h>

#include "pair.h"

struct message {
    char header[64];
    char data[4096];
};

int main(void) {
    static struct message from = {"a header", "and its data"}, to;
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
#ifdef CORRECTED
    const size_t bytes = sizeof from;
#else
    const size_t bytes = sizeof from.data;
#endif
    struct ibv_mr* const source = register_memory(&pair, &from, bytes, 0);
    struct ibv_mr* const target = register_memory(&pair, &to, sizeof to, 0);
    post_receive(&pair.b, target, &to, sizeof to);

    post_message(&pair.a, source, &from, sizeof from);
    const struct ibv_wc sent = await_sent(&pair.a);
    const char* symptom = NULL;
    if (sent.status != IBV_WC_SUCCESS) {
        symptom = with_status("the message fails", sent.status);
    } else if (await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(&from, &to, sizeof to) != 0) {
        symptom = "the message isn't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
