// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a datagram has another Q_Key than the queue pair that it goes to.
//
// What happens: the peer's device drops it. The sender's completion is a success, and nobody hears of it.
// Here the field was forgotten, and is zero. The same happens where both sides compute the key, and one of
// them swaps its bytes.
//
// Remedy: tell the peer the Q_Key together with the queue pair's number, and put both into each request. A
// key with its highest bit set means the sender's own.
#include <string.h>

#include "datagrams.h"

enum { BYTES = 64 };

int main(void) {
    static char from[BYTES] = "hello", to[HEADER_BYTES + BYTES];
    const char* symptom = NULL;
    struct datagrams datagrams;
    struct ibv_wc received;
    uint32_t key = 0;

    datagrams_open(&datagrams);
    struct ibv_mr* const source = register_for_datagrams(&datagrams, from, sizeof from);
    struct ibv_mr* const target = register_for_datagrams(&datagrams, to, sizeof to);
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    post_datagram_receive(&datagrams, target, to, sizeof to);

#ifdef CORRECTED
    key = Q_KEY;
#endif
    send_datagram(&datagrams, ah, key, source, from, sizeof from);
    must(await_completion(datagrams.a.queue).status == IBV_WC_SUCCESS, "a Send");
    if (!poll_for(datagrams.b.queue, patience_ms(), &received)) {
        symptom = "the datagram never comes";
    } else if (received.status != IBV_WC_SUCCESS || strcmp(to + HEADER_BYTES, from) != 0) {
        symptom = "the message isn't there";
    }

    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    datagrams_close(&datagrams);
    return verdict(symptom);
}
