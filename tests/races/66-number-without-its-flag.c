// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion's imm_data is used, and IBV_WC_WITH_IMM isn't looked at.
//
// What happens: a message without immediate data leaves imm_data as it is, or writes something into it: on
// uroce it is 0, elsewhere often that of the completion before. Here b credits an account with what each
// message has in it, and a message that is none of that kind credits account 0.
//
// Remedy: imm_data means something only where wc_flags has IBV_WC_WITH_IMM.
#include <arpa/inet.h>

#include "pair.h"

enum { MESSAGES = 2, ACCOUNTS = 2 };

static void send_number(struct end* end, const struct ibv_mr* region, const void* local, uint32_t number) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = 8, .lkey = region->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND_WITH_IMM,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .imm_data = htonl(number)};
    struct ibv_send_wr* bad = NULL;
    must(ibv_post_send(end->id->qp, &request, &bad) == 0, "ibv_post_send");
}

static unsigned credits[ACCOUNTS];

static void take(struct ibv_wc received) {
    must(received.status == IBV_WC_SUCCESS, "a receive");
#ifdef CORRECTED
    if ((received.wc_flags & IBV_WC_WITH_IMM) == 0) {
        return; // a sign of life
    }
#endif
    ++credits[ntohl(received.imm_data) % ACCOUNTS];
}

int main(void) {
    static char from[8] = "credit", to[MESSAGES][8];
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < MESSAGES; ++i) {
        post_receive(&pair.b, target, to[i], sizeof to[i]);
    }
    pair_connect(&pair);

    send_number(&pair.a, source, from, 1);
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    take(await_received(&pair.b));
    post_message(&pair.a, source, from, sizeof from); // a sign of life
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    take(await_received(&pair.b));

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    const int right = credits[0] == 0 && credits[1] == 1;
    return verdict(right ? NULL : "a message without a number is taken for one with a number");
}
