// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a buffer is filled with the next message while the last one is still being sent from it.
//
// What happens: posting a request copies nothing. If the peer is late to post a receive, or a packet is
// lost, the device reads the buffer again, and sends what is in it by then. The peer gets one message twice,
// and one never. Without load the program works.
//
// Reported: nfs-ganesha's 9P over RDMA sent replies twice under load (nfs-ganesha/nfs-ganesha 14); Mooncake
// sent all its notifications from one buffer (kvcache-ai/Mooncake 1567); Intel's HPNL let go of buffers too
// early (Intel-bigdata/HPNL 87).
//
// Remedy: a buffer for each request that isn't complete, or a wait for the completion.
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 64 };

int main(void) {
    static char from[2 * BYTES];
    static char to[2 * BYTES];
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);

    snprintf(from, BYTES, "first");
    post_message(&pair.a, source, from, BYTES);
#ifdef CORRECTED
    char* const next = from + BYTES;
#else
    char* const next = from;
#endif
    snprintf(next, BYTES, "second");
    post_message(&pair.a, source, next, BYTES);

    post_receive(&pair.b, target, to, BYTES); // b was busy until now
    post_receive(&pair.b, target, to + BYTES, BYTES);
    for (int i = 0; i < 2; ++i) {
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
        must(await_received(&pair.b).status == IBV_WC_SUCCESS, "a receive");
    }
    const int right = strcmp(to, "first") == 0 && strcmp(to + BYTES, "second") == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "b has received \"second\" twice");
}
