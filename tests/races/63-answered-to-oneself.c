// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a datagram is answered to wc.qp_num, which is the receiver's own queue pair.
//
// What happens: a completion has two numbers. qp_num is the queue pair that has received, src_qp the one that
// has sent. The answer goes to the program that answers, or is dropped, and the one that has asked waits
// without end.
//
// Remedy: answer to wc.src_qp.
#include <string.h>

#include "datagrams.h"

enum { BYTES = 64 };

static void answer(struct datagrams* datagrams, struct ibv_ah* ah, const struct ibv_mr* region, void* text,
                   uint32_t number) {
    struct ibv_sge piece = {.addr = (uintptr_t)text, .length = BYTES, .lkey = region->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.ud = {.ah = ah, .remote_qpn = number, .remote_qkey = Q_KEY}};
    struct ibv_send_wr* bad = NULL;
    must(ibv_post_send(datagrams->b.qp, &request, &bad) == 0, "ibv_post_send");
    must(await_completion(datagrams->b.queue).status == IBV_WC_SUCCESS, "an answer");
}

static void post_receive_at_a(struct datagrams* datagrams, const struct ibv_mr* region, void* local) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = HEADER_BYTES + BYTES, .lkey = region->lkey};
    struct ibv_recv_wr request = {.sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    must(ibv_post_recv(datagrams->a.qp, &request, &bad) == 0, "ibv_post_recv");
}

int main(void) {
    static char question[BYTES] = "who are you?", text[BYTES] = "b";
    static char asked[HEADER_BYTES + BYTES], answered[HEADER_BYTES + BYTES];
    struct datagrams datagrams;
    struct ibv_wc received;
    const char* symptom = NULL;

    datagrams_open(&datagrams);
    struct ibv_mr* const regions[] = {register_for_datagrams(&datagrams, question, sizeof question),
                                      register_for_datagrams(&datagrams, text, sizeof text),
                                      register_for_datagrams(&datagrams, asked, sizeof asked),
                                      register_for_datagrams(&datagrams, answered, sizeof answered)};
    struct ibv_ah* const ah = make_address_handle(&datagrams);
    post_datagram_receive(&datagrams, regions[2], asked, sizeof asked);
    post_receive_at_a(&datagrams, regions[3], answered);

    send_datagram(&datagrams, ah, Q_KEY, regions[0], question, sizeof question);
    must(await_completion(datagrams.a.queue).status == IBV_WC_SUCCESS, "a question");
    received = await_completion(datagrams.b.queue);
    must(received.status == IBV_WC_SUCCESS, "a receive");
#ifdef CORRECTED
    answer(&datagrams, ah, regions[1], text, received.src_qp);
#else
    answer(&datagrams, ah, regions[1], text, received.qp_num);
#endif
    if (!poll_for(datagrams.a.queue, patience_ms(), &received)) {
        symptom = "the answer never comes";
    } else if (strcmp(answered + HEADER_BYTES, text) != 0) {
        symptom = "the answer is another one";
    }

    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    datagrams_destroy_qps(&datagrams);
    for (unsigned i = 0; i < sizeof regions / sizeof regions[0]; ++i) {
        must(ibv_dereg_mr(regions[i]) == 0, "ibv_dereg_mr");
    }
    datagrams_close(&datagrams);
    return verdict(symptom);
}
