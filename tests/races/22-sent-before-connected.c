// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a message is posted before the connection is up.
//
// What happens: a queue pair takes sends in the state RTS alone. Some drivers look at the state, and answer
// EINVAL. Others, mlx5 among them, don't look, and the message is lost, or leaves when the peer isn't ready
// yet. A program whose peer is quick may never notice.
//
// Reported: Mooncake's passive side posted before the active side had moved its queue pair on
// (kvcache-ai/Mooncake 2625).
//
// Remedy: send after RDMA_CM_EVENT_ESTABLISHED. Receives may be posted before.
#include <errno.h>
#include <string.h>

#include "pair.h"

int main(void) {
    static char from[64] = "hello", to[64];
    const struct options options = {0};
    const struct remote nowhere = {0, 0};
    const char* symptom = NULL;
    struct pair pair;
    int refused = 0;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    post_receive(&pair.b, target, to, sizeof to);
#ifdef CORRECTED
    pair_connect(&pair);
    refused = post(&pair.a, IBV_WR_SEND, source, from, sizeof from, nowhere, IBV_SEND_SIGNALED);
#else
    refused = post(&pair.a, IBV_WR_SEND, source, from, sizeof from, nowhere, IBV_SEND_SIGNALED);
    pair_connect(&pair);
#endif
    if (refused != 0) {
        symptom = strerror(refused);
    } else if (await_sent(&pair.a).status != IBV_WC_SUCCESS ||
               await_received(&pair.b).status != IBV_WC_SUCCESS || memcmp(from, to, sizeof to) != 0) {
        symptom = "the message is accepted, and isn't there";
    }

    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
