// SPDX-License-Identifier: BSD-3-Clause
//
// check_program CASE: a use of verbs, right or wrong, behind `sluice check`. `check` says what is found in
// each. The program itself ends with 0 if everything came out as without a checker.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "check_cases.h"

static const struct options usual = {0};

// ---- requests in parts

struct ibv_qp_ex* start(struct end* end, uint64_t id) {
    struct ibv_qp_ex* const qp = ibv_qp_to_qp_ex(end->qp);
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

void set_piece(struct ibv_qp_ex* qp, const struct buffer* buffer) {
    const struct ibv_sge piece = piece_of(buffer);
    ibv_wr_set_sge(qp, piece.lkey, piece.addr, piece.length);
}

void complete(struct ibv_qp_ex* qp) {
    errno = ibv_wr_complete(qp);
    must(errno == 0, "ibv_wr_complete");
}

static void send_in_parts(struct end* end, uint64_t id, const struct buffer* buffer) {
    struct ibv_qp_ex* const qp = start(end, id);
    ibv_wr_send(qp);
    set_piece(qp, buffer);
    complete(qp);
}

// A Write, a Read of what it wrote and a Send of an own text, by one call.
static void parts(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct buffer back = make_buffer(&ends);
    (void)snprintf(from.memory, BYTES, "written");
    post_receive(&ends.b, 9, &back);
    struct ibv_qp_ex* const qp = start(&ends.a, 1);
    ibv_wr_rdma_write(qp, to.region->rkey, (uintptr_t)to.memory);
    set_piece(qp, &from);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, (char[64]){"inline"}, 64);
    complete(qp);
    await(ends.a.sent, 1);
    await(ends.a.sent, 2);
    await(ends.b.received, 9);
    must(strcmp(to.memory, "written") == 0 && strcmp(back.memory, "inline") == 0, "the data");
    struct ibv_qp_ex* const again = start(&ends.a, 3);
    ibv_wr_rdma_read(again, to.region->rkey, (uintptr_t)to.memory);
    set_piece(again, &back);
    complete(again);
    await(ends.a.sent, 3);
    must(strcmp(back.memory, "written") == 0, "the data that was read");
    free_buffer(&from);
    free_buffer(&to);
    free_buffer(&back);
    close_ends(&ends);
}

// No receive is there, so that the Send is outstanding.
static void parts_region_ended(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    send_in_parts(&ends.a, 1, &from);
    end_region(&from);
    close_ends(&ends);
    free_buffer(&from);
}

static void parts_aborted(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer given_up = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct ibv_qp_ex* const qp = start(&ends.a, 1);
    for (int i = 0; i < 2; ++i) {
        ibv_wr_send(qp);
        set_piece(qp, &given_up);
    }
    ibv_wr_abort(qp);
    end_region(&given_up);
    given_up.memory[0] = 'x';
    post_receive(&ends.b, 9, &to);
    send_in_parts(&ends.a, 2, &from);
    await(ends.a.sent, 2);
    await(ends.b.received, 9);
    free_buffer(&to);
    send_in_parts(&ends.a, 3, &from);
    end_region(&from); // the mistake, which names the second Send
    close_ends(&ends);
    free_buffer(&given_up);
    free_buffer(&from);
}

static void parts_aborted_early(void) {
    struct ends ends = open_ends((struct options){.is_apart = 1});
    struct buffer from = make_buffer(&ends);
    struct ibv_qp_ex* const qp = start(&ends.a, 1);
    for (int i = 0; i < 2; ++i) {
        ibv_wr_send(qp);
        set_piece(qp, &from);
    }
    ibv_wr_abort(qp);
    free_buffer(&from);
    close_ends(&ends);
}

// ---- completions in steps

static int is_there(int error) {
    must(error == 0 || error == ENOENT, "polling in steps");
    return error == 0;
}

static void await_start(struct ibv_cq_ex* queue) {
    struct ibv_poll_cq_attr attr = {0};
    const long long end_ms = now_ms() + 10000;
    while (!is_there(ibv_start_poll(queue, &attr))) {
        must(now_ms() < end_ms, "a completion");
        sched_yield();
    }
}

static void await_next(struct ibv_cq_ex* queue) {
    const long long end_ms = now_ms() + 10000;
    while (!is_there(ibv_next_poll(queue))) {
        must(now_ms() < end_ms, "the next completion");
        sched_yield();
    }
}

// Two completions in one batch. The second request goes to the address TO, by KEY.
static void write_twice(struct ends* ends, const struct buffer* from, const struct buffer* to, uint32_t key,
                        enum ibv_wc_status last) {
    struct ibv_cq_ex* const queue = (struct ibv_cq_ex*)ends->a.sent;
    struct ibv_qp_ex* const qp = start(&ends->a, 1);
    ibv_wr_rdma_write(qp, to->region->rkey, (uintptr_t)to->memory);
    set_piece(qp, from);
    qp->wr_id = 2;
    ibv_wr_rdma_write(qp, key, (uintptr_t)to->memory);
    set_piece(qp, from);
    complete(qp);
    await_start(queue);
    must(queue->wr_id == 1 && queue->status == IBV_WC_SUCCESS, "the first completion");
    must(ibv_wc_read_opcode(queue) == IBV_WC_RDMA_WRITE, "its kind");
    await_next(queue);
    must(queue->wr_id == 2 && queue->status == last, "the second completion");
    must(!is_there(ibv_next_poll(queue)), "no third one");
    ibv_end_poll(queue);
}

static void steps(void) {
    struct ends ends = open_ends((struct options){.is_extended = 1});
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    for (int i = 0; i < 100; ++i) {
        snprintf(from.memory, BYTES, "round %d", i);
        write_twice(&ends, &from, &to, to.region->rkey, IBV_WC_SUCCESS);
        must(strcmp(from.memory, to.memory) == 0, "the data");
    }
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

static void steps_refused(void) {
    struct ends ends = open_ends((struct options){.is_extended = 1});
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    write_twice(&ends, &from, &to, to.region->rkey ^ 0x7777U, IBV_WC_REM_ACCESS_ERR);
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- calls between the first and the last of a batch

// A request is put together while the queue pair's other requests go on.
static void between_parts(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct buffer unused = make_buffer(&ends);
    post_write(&ends.a, 1, &from, &to);
    struct ibv_qp_ex* const qp = start(&ends.a, 2);
    ibv_wr_rdma_write(qp, to.region->rkey, (uintptr_t)to.memory);
    post_receive(&ends.a, 9, &unused);
    await(ends.a.sent, 1);
    free_buffer(&to); // before it is asked for
    set_piece(qp, &from);
    ibv_wr_abort(qp);
    send_in_parts(&ends.b, 3, &from);
    await(ends.b.sent, 3);
    await(ends.a.received, 9);
    free_buffer(&from);
    free_buffer(&unused);
    close_ends(&ends);
}

// What belongs to a completion is given back while the batch goes on.
static void between_steps(void) {
    struct ends ends = open_ends((struct options){.is_extended = 1});
    struct ibv_cq_ex* const queue = (struct ibv_cq_ex*)ends.a.sent;
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    post_write(&ends.a, 1, &from, &to);
    await_start(queue);
    must(queue->wr_id == 1 && queue->status == IBV_WC_SUCCESS, "the completion");
    free_buffer(&from);
    struct buffer next = make_buffer(&ends);
    post_write(&ends.a, 2, &next, &to);
    await_next(queue);
    must(queue->wr_id == 2 && queue->status == IBV_WC_SUCCESS, "the next completion");
    ibv_end_poll(queue);
    free_buffer(&next);
    free_buffer(&to);
    close_ends(&ends);
}

static const struct {
    const char* name;
    void (*run)(void);
} cases[] = {{"parts", parts},
             {"parts_region_ended", parts_region_ended},
             {"parts_aborted", parts_aborted},
             {"parts_aborted_early", parts_aborted_early},
             {"steps", steps},
             {"steps_refused", steps_refused},
             {"shared", shared},
             {"shared_region_ended", shared_region_ended},
             {"shared_ended_before_the_poll", shared_ended_before_the_poll},
             {"one_buffer_in_turns", one_buffer_in_turns},
             {"inline_changed", inline_changed},
             {"list_refused", list_refused},
             {"list_filled_anew", list_filled_anew},
             {"list_posted_again", list_posted_again},
             {"queue_full", queue_full},
             {"ended_before_the_poll", ended_before_the_poll},
             {"ended_before_the_steps", ended_before_the_steps},
             {"failed_before_the_steps", failed_before_the_steps},
             {"region_moved", region_moved},
             {"region_with_fewer_rights", region_with_fewer_rights},
             {"read_into_what_is_sent", read_into_what_is_sent},
             {"read_counted_into_what_is_sent", read_counted_into_what_is_sent},
             {"streamed_into_what_is_sent", streamed_into_what_is_sent},
             {"messages_into_what_is_sent", messages_into_what_is_sent},
             {"messages_from_what_is_sent", messages_from_what_is_sent},
             {"random_into_what_is_sent", random_into_what_is_sent},
             {"read_in_pieces_into_what_is_sent", read_in_pieces_into_what_is_sent},
             {"written_from_what_is_sent", written_from_what_is_sent},
             {"threads", threads},
             {"threads_that_end_regions", threads_that_end_regions},
             {"idle_child", idle_child},
             {"busy", busy},
             {"busy_changed_in_a_loop", busy_changed_in_a_loop},
             {"busy_changed_once", busy_changed_once},
             {"busy_failed", busy_failed},
             {"between_parts", between_parts},
             {"between_steps", between_steps},
             {"one_at_a_time", one_at_a_time},
             {"one_left", one_left},
             {"flags_in_turns", flags_in_turns},
             {"flags_too_late", flags_too_late},
             {"given_up_and_begun", given_up_and_begun},
             {"unseen_in_epoll", unseen_in_epoll},
             {"unseen_in_select", unseen_in_select},
             {"unseen_in_counted_poll", unseen_in_counted_poll},
             {"looked_at_by_another", looked_at_by_another},
             {"unarmed_in_epoll", unarmed_in_epoll},
             {"unarmed_beside_another", unarmed_beside_another},
             {"epoll_in_turns", epoll_in_turns},
             {"cancelled_wait", cancelled_wait},
             {"left_by_a_reset_pair", left_by_a_reset_pair},
             {"left_by_a_destroyed_pair", left_by_a_destroyed_pair}};

int main(int argc, char** argv) {
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; ++i) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: check_program CASE\n");
    return 2;
}
