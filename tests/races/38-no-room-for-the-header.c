// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a receive for datagrams has as much room as the message has bytes.
//
// What happens: the first 40 bytes of the memory are for the message's address header, on every device, and
// the message stands behind them. Without room for both, the datagram is dropped, here without a trace, or
// the receive fails with a local length error. A program that makes the buffers larger and goes on to read
// from their begin takes the header for the message.
//
// Reported: rdma-core's ping-pong compared the header with the message (linux-rdma/rdma-core 462); UCX posted
// receives of another length than their memory had (openucx/ucx 8292).
//
// Remedy: 40 bytes more for each receive, and the message from there on.
#include <string.h>

#include "datagrams.h"

enum { BYTES = 64 };

int main(void) {
    static char from[BYTES] = "hello", to[HEADER_BYTES + BYTES];
    const char* symptom = NULL;
    struct datagrams datagrams;
    struct ibv_wc received;

    datagrams_open(&datagrams);
    struct ibv_mr* const source = register_for_datagrams(&datagrams, from, sizeof from);
    struct ibv_mr* const target = register_for_datagrams(&datagrams, to, sizeof to);
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    size_t room = BYTES;
#ifdef CORRECTED
    room += HEADER_BYTES;
#endif
    post_datagram_receive(&datagrams, target, to, room);

    send_datagram(&datagrams, ah, Q_KEY, source, from, sizeof from);
    must(await_completion(datagrams.a.queue).status == IBV_WC_SUCCESS, "a Send");
    if (!poll_for(datagrams.b.queue, patience_ms(), &received)) {
        symptom = "the datagram never comes";
    } else if (received.status != IBV_WC_SUCCESS) {
        symptom = with_status("the receive fails", received.status);
    } else if (strcmp(to + HEADER_BYTES, from) != 0) {
        symptom = "the receive succeeds, and the message isn't there";
    }

    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    datagrams_close(&datagrams);
    return verdict(symptom);
}
