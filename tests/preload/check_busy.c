// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of check_program.c in which a queue has had so many requests that not each one is watched.
#include <stdio.h>
#include <string.h>

#include "check_cases.h"

// More than are all watched.
enum { MANY = 3000, MISTAKES = 200 };

static const struct options usual = {0};

struct busy {
    struct ends ends;
    struct buffer from;
    struct buffer to;
};

// Its last request is Write number MANY.
static struct busy open_busy(void) {
    struct busy made = {.ends = open_ends(usual)};
    made.from = make_buffer(&made.ends);
    made.to = make_buffer(&made.ends);
    for (uint64_t id = 1; id <= MANY; ++id) {
        post_write(&made.ends.a, id, &made.from, &made.to);
        await(made.ends.a.sent, id);
        made.from.memory[0] = (char)id;
    }
    return made;
}

static void close_busy(struct busy* busy) {
    free_buffer(&busy->from);
    free_buffer(&busy->to);
    close_ends(&busy->ends);
}

static void change_what_is_sent(struct busy* busy, uint64_t id) {
    post_write(&busy->ends.a, id, &busy->from, &busy->to);
    busy->from.memory[0] ^= 1;
    await(busy->ends.a.sent, id);
}

void busy(void) {
    struct busy all = open_busy();
    close_busy(&all);
}

void busy_changed_in_a_loop(void) {
    struct busy all = open_busy();
    for (uint64_t id = 1; id <= MISTAKES; ++id) {
        change_what_is_sent(&all, id);
    }
    close_busy(&all);
}

void busy_changed_once(void) {
    struct busy all = open_busy();
    change_what_is_sent(&all, 1);
    close_busy(&all);
}

// What fails is watched from then on.
void busy_failed(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    for (uint64_t id = 1; id <= MANY; ++id) {
        post_receive(&ends.b, id, &to);
        post_send(&ends.a, id, &from, 0);
        await(ends.a.sent, id);
        await(ends.b.received, id);
    }
    struct ibv_sge piece = piece_of(&to);
    piece.length = BYTES;
    struct ibv_recv_wr request = {.wr_id = 1, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* refused = NULL;
    must(ibv_post_recv(ends.b.qp, &request, &refused) == 0, "ibv_post_recv");
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    must(ibv_modify_qp(ends.b.qp, &error, IBV_QP_STATE) == 0, "ibv_modify_qp");
    must(await_any(ends.b.received).status == IBV_WC_WR_FLUSH_ERR, "a receive that fails");
    printf("the message begins with %d\n", to.memory[0]);
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}
