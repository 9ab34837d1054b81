// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an address handle is destroyed when its datagram is posted, and not when it is complete.
//
// What happens: some devices read the handle when they send: the datagram goes nowhere, or to the address
// that is in this place by then. Others take a copy at the post, uroce among them, and show nothing.
//
// Reported: rdma-core's own tests (linux-rdma/rdma-core 862); UCX used a handle that was gone
// (openucx/ucx 11845).
//
// Remedy: keep a handle until the completion of the last request that names it was polled. Programs keep one
// for each peer, and don't make one for each message.
#include <string.h>

#include "datagrams.h"

enum { BYTES = 64 };

int main(void) {
    static char from[BYTES] = "hello", to[HEADER_BYTES + BYTES];
    struct datagrams datagrams;
    struct ibv_wc sent, received;

    datagrams_open(&datagrams);
    struct ibv_mr* const source = register_for_datagrams(&datagrams, from, sizeof from);
    struct ibv_mr* const target = register_for_datagrams(&datagrams, to, sizeof to);
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    post_datagram_receive(&datagrams, target, to, sizeof to);

    send_datagram(&datagrams, ah, Q_KEY, source, from, sizeof from);
#ifdef CORRECTED
    sent = await_completion(datagrams.a.queue);
    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
#else
    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    sent = await_completion(datagrams.a.queue);
#endif
    const int came = poll_for(datagrams.b.queue, patience_ms(), &received);
    const int right = sent.status == IBV_WC_SUCCESS && came && received.status == IBV_WC_SUCCESS &&
                      strcmp(to + HEADER_BYTES, from) == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    datagrams_close(&datagrams);
    return verdict(right ? NULL : "the datagram never comes");
}
