// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a list that was refused is posted again as a whole.
//
// What happens: ibv_post_send() carries out what stands in front of the request that it refuses. Posted
// again, these requests are sent twice: the peer takes an order twice, and a receive is used up that was
// meant for another message.
//
// Remedy: go on with the request that `bad_wr` names.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { PLACES = 4, LIST = 3, MOST_RECEIVES = 64, BYTES = 8 }; // a device may grant more places

static char from[LIST][BYTES];
static struct ibv_sge pieces[LIST];
static struct ibv_send_wr list[LIST];

static void make_list(const struct ibv_mr* region) {
    for (int i = 0; i < LIST; ++i) {
        snprintf(from[i], BYTES, "order %c", 'a' + i);
        pieces[i] = (struct ibv_sge){.addr = (uintptr_t)from[i], .length = BYTES, .lkey = region->lkey};
        list[i] = (struct ibv_send_wr){.next = i + 1 < LIST ? &list[i + 1] : NULL,
                                       .opcode = IBV_WR_SEND,
                                       .sg_list = &pieces[i],
                                       .num_sge = 1,
                                       .send_flags = IBV_SEND_SIGNALED};
    }
}

// b was busy until now: the queue is full, as long as none of its messages is done.
static void post_receives(struct pair* pair, const struct ibv_mr* target, char* to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        post_receive(&pair->b, target, to + (size_t)i * BYTES, BYTES);
    }
}

// Posts all of the list: what the queue has no place for when its messages are done.
static void post_list(struct pair* pair, const struct ibv_mr* target, char* to, unsigned receives) {
    struct ibv_send_wr* bad = NULL;
    struct ibv_send_wr* rest = list;
    const int error = ibv_post_send(pair->a.id->qp, list, &bad);
    must(error == ENOMEM, "a full queue");
    post_receives(pair, target, to, receives);
    for (uint32_t i = 0; i < pair->a.cap.max_send_wr; ++i) {
        must(await_sent(&pair->a).status == IBV_WC_SUCCESS, "a message");
    }
#ifdef CORRECTED
    rest = bad;
#endif
    must(ibv_post_send(pair->a.id->qp, rest, &bad) == 0, "ibv_post_send");
}

int main(void) {
    static char other[BYTES] = "other", to[MOST_RECEIVES][BYTES];
    const struct options options = {.send_requests = PLACES};
    struct ibv_wc received;
    struct pair pair;
    unsigned orders_b = 0;

    pair_open(&pair, &options);
    needs_retries(&pair);
    pair_connect(&pair);
    const unsigned others_count = pair.a.cap.max_send_wr - 2;
    must(others_count + 2 * LIST <= MOST_RECEIVES, "a queue of some places");
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const others = register_memory(&pair, other, sizeof other, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (unsigned i = 0; i < others_count; ++i) {
        post_message(&pair.a, others, other, sizeof other);
    }
    make_list(source);
    post_list(&pair, target, to[0], others_count + 2 * LIST);
    must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "the last message of the list");

    while (ibv_poll_cq(pair.b.received, 1, &received) == 1) { // the last has come, and so have all
        must(received.status == IBV_WC_SUCCESS, "a receive");
        --pair.b.receives;
        orders_b += strcmp((const char*)(uintptr_t)received.wr_id, "order b") == 0;
    }
    end_flush(&pair.a);
    end_flush(&pair.b);
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(others) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(orders_b == 1 ? NULL : "b has received \"order b\" twice");
}
