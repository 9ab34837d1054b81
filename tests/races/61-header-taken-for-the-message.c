// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a datagram is read from the beginning of its receive.
//
// What happens: the first 40 bytes of each datagram's receive are for a header that tells where it came from,
// whether there is one or not. On RoCE with IPv4 it fills the last 20 of them, and the first 20 are what they
// were. The program reads these, and the message stands behind.
//
// Remedy: the message begins at byte 40, and its length is wc.byte_len less 40.
#include <string.h>

#include "datagrams.h"

enum { BYTES = 64 };

int main(void) {
    static char from[BYTES] = "hello", to[HEADER_BYTES + BYTES];
    struct datagrams datagrams;

    datagrams_open(&datagrams);
    struct ibv_mr* const source = register_for_datagrams(&datagrams, from, sizeof from);
    struct ibv_mr* const target = register_for_datagrams(&datagrams, to, sizeof to);
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    post_datagram_receive(&datagrams, target, to, sizeof to);

    send_datagram(&datagrams, ah, Q_KEY, source, from, sizeof from);
    must(await_completion(datagrams.a.queue).status == IBV_WC_SUCCESS, "a Send");
    must(await_completion(datagrams.b.queue).status == IBV_WC_SUCCESS, "a receive");
    const char* message = to;
#ifdef CORRECTED
    message += HEADER_BYTES;
#endif
    const int right = strcmp(message, from) == 0;

    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    datagrams_close(&datagrams);
    return verdict(right ? NULL : "b reads what was in front of the message");
}
