// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a receive has less room than the message that it takes.
//
// What happens: nothing of the message is delivered in a way to rely on. The receive fails with a local
// length error, the sender's request with a remote invalid request error, and both queue pairs are gone. A
// protocol whose messages grew, on one side only, fails in this way.
//
// Reported: Accelio computed a response's last piece too long for what the peer had posted
// (accelio/accelio 157); libfabric's GNI provider wrote behind the end of the buffer (ofiwg/libfabric 5002).
//
// Remedy: agree on the longest message when connecting, and bring longer ones by a Read or a Write.
#include <string.h>

#include "pair.h"

enum { BYTES = 256 };

int main(void) {
    static char from[BYTES] = "what a sends", to[BYTES];
    const struct options options = {0};
    const char* symptom = NULL;
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
#ifdef CORRECTED
    const size_t room = BYTES;
#else
    const size_t room = BYTES / 2;
#endif
    post_receive(&pair.b, target, to, room);

    post_message(&pair.a, source, from, BYTES);
    await_sent(&pair.a);
    const struct ibv_wc received = await_received(&pair.b);
    if (received.status != IBV_WC_SUCCESS) {
        symptom = with_status("the receive fails", received.status);
    } else if (memcmp(from, to, sizeof to) != 0) {
        symptom = "the receive succeeds, and the message isn't there";
    }

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(symptom);
}
