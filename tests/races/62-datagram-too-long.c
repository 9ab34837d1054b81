// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a datagram is longer than a packet may be.
//
// What happens: a message on an unreliable datagram queue pair is one packet, of no more than the port's
// active MTU: 4096 bytes at most, and often 1024. What works in one network fails in another one, with a
// local length error, and the queue pair goes to error.
//
// Remedy: look at active_mtu of ibv_query_port(), and cut messages to pieces of that length.
#include "datagrams.h"

enum { BYTES = 8192 };

static size_t most_bytes(struct datagrams* datagrams) {
    struct ibv_port_attr port;
    must(ibv_query_port(datagrams->id->verbs, datagrams->id->port_num, &port) == 0, "ibv_query_port");
    return (size_t)128 << port.active_mtu;
}

// Sends all of it in pieces of MOST, with a completion each. What fails, or null.
static const char* send_all(struct datagrams* datagrams, struct ibv_ah* ah, const struct ibv_mr* source,
                            const struct ibv_mr* target, size_t most) {
    for (size_t done = 0; done < BYTES; done += most) {
        const size_t rest = BYTES - done;
        const char* const from = (const char*)source->addr + done;
        post_datagram_receive(datagrams, target, target->addr, target->length);
        send_datagram(datagrams, ah, Q_KEY, source, from, rest < most ? rest : most);
        const struct ibv_wc sent = await_completion(datagrams->a.queue);
        if (sent.status != IBV_WC_SUCCESS) {
            return with_status("the datagram fails", sent.status);
        }
        must(await_completion(datagrams->b.queue).status == IBV_WC_SUCCESS, "a receive");
    }
    return NULL;
}

int main(void) {
    static char from[BYTES] = "a long message", to[HEADER_BYTES + BYTES];
    struct datagrams datagrams;

    datagrams_open(&datagrams);
    struct ibv_mr* const source = register_for_datagrams(&datagrams, from, sizeof from);
    struct ibv_mr* const target = register_for_datagrams(&datagrams, to, sizeof to);
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    size_t most = BYTES;
#ifdef CORRECTED
    most = most_bytes(&datagrams);
#else
    (void)most_bytes;
#endif
    const char* const symptom = send_all(&datagrams, ah, source, target, most);

    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    datagrams_destroy_qps(&datagrams);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    datagrams_close(&datagrams);
    return verdict(symptom);
}
