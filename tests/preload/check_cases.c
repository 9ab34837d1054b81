// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of check_program.c that post by ibv_post_send(), and poll by ibv_poll_cq().
#include "check_cases.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct options usual = {0};

// ---- a shared receive queue, whose second receive is polled first

static void shared_out_of_order(struct ends* ends, struct buffer* buffers) {
    post_shared(ends, 1, &buffers[1]);
    post_shared(ends, 2, &buffers[2]);
    post_send(&ends->a, 11, &buffers[0], 0);
    await(ends->a.sent, 11);
    post_send(&ends->b, 12, &buffers[0], 0);
    await(ends->b.sent, 12);
    await(ends->a.received, 2);
    must(strcmp(buffers[2].memory, "a message") == 0, "the second message");
    await(ends->b.received, 1);
    must(strcmp(buffers[1].memory, "a message") == 0, "the first message");
}

static void shared_with(int has_mistake) {
    struct ends ends = open_ends((struct options){.is_shared = 1});
    struct buffer buffers[3] = {make_buffer(&ends), make_buffer(&ends), make_buffer(&ends)};
    (void)snprintf(buffers[0].memory, BYTES, "a message");
    for (int i = 0; i < 2 * REQUESTS; ++i) {
        shared_out_of_order(&ends, buffers);
    }
    if (has_mistake) {
        post_shared(&ends, 3, &buffers[1]);
        end_region(&buffers[1]);
    }
    for (int i = 0; i < 3; ++i) {
        if (buffers[i].region != NULL) {
            end_region(&buffers[i]);
        }
    }
    close_ends(&ends);
    for (int i = 0; i < 3; ++i) {
        free_buffer(&buffers[i]);
    }
}

void shared(void) {
    shared_with(0);
}

void shared_region_ended(void) {
    shared_with(1);
}

// The sender's completion says that the message is there, whichever queue its own is in.
static void end_shared_before_the_poll(struct ends* ends, struct end* sender, const struct end* receiver) {
    struct buffer from = make_buffer(ends);
    struct buffer to = make_buffer(ends);
    post_shared(ends, 1, &to);
    post_send(sender, 11, &from, 0);
    await(sender->sent, 11);
    end_region(&to);
    await(receiver->received, 1);
    free_buffer(&from);
    free_buffer(&to);
}

void shared_ended_before_the_poll(void) {
    struct ends ends = open_ends((struct options){.is_shared = 1});
    end_shared_before_the_poll(&ends, &ends.a, &ends.b);
    end_shared_before_the_poll(&ends, &ends.b, &ends.a);
    close_ends(&ends);
}

// ---- one buffer for two messages

static void post_whole_receive(struct end* end, uint64_t id, const struct buffer* buffer) {
    struct ibv_sge piece = piece_of(buffer);
    piece.length = BYTES;
    struct ibv_recv_wr request = {.wr_id = id, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* refused = NULL;
    must(ibv_post_recv(end->qp, &request, &refused) == 0, "ibv_post_recv");
}

// The second doesn't come before the first was looked at.
void one_buffer_in_turns(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    post_whole_receive(&ends.b, 1, &to);
    post_whole_receive(&ends.b, 2, &to);
    for (uint64_t id = 1; id <= 2; ++id) {
        (void)snprintf(from.memory, BYTES, "message %d", (int)id);
        post_send(&ends.a, id, &from, 0);
        await(ends.a.sent, id);
        await(ends.b.received, id);
        must(strcmp(to.memory, from.memory) == 0, "the data");
    }
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- what is copied at once

void inline_changed(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    char text[64] = "in parts";
    (void)snprintf(from.memory, BYTES, "at once");
    post_send(&ends.a, 1, &from, IBV_SEND_INLINE);
    (void)snprintf(from.memory, BYTES, "later");
    struct ibv_qp_ex* const qp = start(&ends.a, 2);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, sizeof text);
    complete(qp);
    (void)snprintf(text, sizeof text, "later");
    end_region(&from);
    post_receive(&ends.b, 9, &to);
    await(ends.b.received, 9);
    must(strcmp(to.memory, "at once") == 0, "the first message");
    post_receive(&ends.b, 10, &to);
    await(ends.b.received, 10);
    must(strcmp(to.memory, "in parts") == 0, "the second message");
    await(ends.a.sent, 1);
    await(ends.a.sent, 2);
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- posts that fail

// The second of three has an opcode that there isn't.
void list_refused(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer refused = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct ibv_sge pieces[3] = {piece_of(&from), piece_of(&refused), piece_of(&refused)};
    struct ibv_send_wr list[3];
    struct ibv_send_wr* bad = NULL;
    memset(list, 0, sizeof list);
    for (int i = 0; i < 3; ++i) {
        list[i].wr_id = 1 + i;
        list[i].next = i < 2 ? &list[i + 1] : NULL;
        list[i].opcode = i == 1 ? (enum ibv_wr_opcode)120 : IBV_WR_SEND;
        list[i].send_flags = IBV_SEND_SIGNALED;
        list[i].sg_list = &pieces[i];
        list[i].num_sge = 1;
    }
    must(ibv_post_send(ends.a.qp, list, &bad) != 0 && bad == &list[1], "a list that is refused");
    refused.memory[0] = 'x';
    end_region(&refused);
    post_receive(&ends.b, 9, &to);
    await(ends.a.sent, 1);
    await(ends.b.received, 9);
    free_buffer(&to);
    post_send(&ends.a, 2, &from, 0);
    end_region(&from); // the mistake, which names the second Send
    close_ends(&ends);
    free_buffer(&from);
    free_buffer(&refused);
}

// A list whose second request is refused, and then the same list once more, as it is or filled anew.
static void post_in_part_and_again(void (*meanwhile)(struct ends* ends, struct buffer* from)) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to[2] = {make_buffer(&ends), make_buffer(&ends)};
    struct ibv_sge piece = piece_of(&from);
    struct ibv_send_wr list[2] = {{.wr_id = 1, .next = &list[1], .opcode = IBV_WR_SEND},
                                  {.wr_id = 2, .opcode = (enum ibv_wr_opcode)120}};
    struct ibv_send_wr* bad = NULL;
    for (int i = 0; i < 2; ++i) {
        list[i].send_flags = IBV_SEND_SIGNALED;
        list[i].sg_list = &piece;
        list[i].num_sge = 1;
        post_receive(&ends.b, 8 + i, &to[i]);
    }
    must(ibv_post_send(ends.a.qp, list, &bad) != 0 && bad == &list[1], "a list that is refused");
    await(ends.a.sent, 1);
    await(ends.b.received, 8);
    meanwhile(&ends, &from);
    must(ibv_post_send(ends.a.qp, list, &bad) != 0 && bad == &list[1], "a list that is refused again");
    await(ends.a.sent, 1);
    await(ends.b.received, 9);
    free_buffer(&from);
    free_buffer(&to[0]);
    free_buffer(&to[1]);
    close_ends(&ends);
}

static void fill_anew(struct ends* ends, struct buffer* from) {
    (void)ends;
    from->memory[0] = 'x';
}

void list_filled_anew(void) {
    post_in_part_and_again(fill_anew);
}

static void do_nothing(struct ends* ends, struct buffer* from) {
    (void)ends;
    (void)from;
}

void list_posted_again(void) {
    post_in_part_and_again(do_nothing);
}

// One at a time, until the queue is full; three times.
void queue_full(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct ibv_sge piece = piece_of(&from);
    for (int round = 0; round < 3; ++round) {
        struct ibv_send_wr request = {
            .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &piece, .num_sge = 1};
        struct ibv_send_wr* bad = NULL;
        while (ibv_post_send(ends.a.qp, &request, &bad) == 0) {
            ++request.wr_id;
        }
        must(request.wr_id == ends.a.places, "as many as there are places");
        for (uint64_t id = 0; id < request.wr_id; ++id) {
            post_receive(&ends.b, id, &to);
            await(ends.b.received, id);
            await(ends.a.sent, id);
        }
    }
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- completions that the program hasn't polled

// Each event says that another completion is there.
static void end_before_the_poll(struct options options) {
    enum { COUNT = 3 };
    struct ends ends = open_ends(options);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    struct ibv_wc completion;
    for (uint64_t id = 1; id <= COUNT; ++id) {
        struct ibv_cq* queue = NULL;
        void* context = NULL;
        must(ibv_req_notify_cq(ends.a.sent, 0) == 0, "ibv_req_notify_cq");
        post_write(&ends.a, id, &from, &to);
        must(ibv_get_cq_event(ends.a.channel, &queue, &context) == 0, "ibv_get_cq_event");
        ibv_ack_cq_events(queue, 1);
    }
    end_region(&from);
    for (uint64_t id = 1; id <= COUNT; ++id) {
        must(ibv_poll_cq(ends.a.sent, 1, &completion) == 1, "a completion");
        must(completion.wr_id == id && completion.status == IBV_WC_SUCCESS, "its number");
    }
    must(ibv_poll_cq(ends.a.sent, 1, &completion) == 0, "no further completion");
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

void ended_before_the_poll(void) {
    end_before_the_poll(usual);
}

void ended_before_the_steps(void) {
    end_before_the_poll((struct options){.is_extended = 1});
}

// The Send goes again and again until a receive is there, and the device looks for the memory each time.
void failed_before_the_steps(void) {
    struct ends ends = open_ends((struct options){.is_extended = 1});
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    post_send(&ends.a, 1, &from, 0);
    end_region(&from);
    post_receive(&ends.b, 9, &to);
    must(await_any(ends.a.sent).status == IBV_WC_LOC_PROT_ERR, "a refusal");
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- regions that change

void region_moved(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer other = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    end_region(&other);
    (void)snprintf(other.memory, BYTES, "from the other memory");
    must(ibv_rereg_mr(from.region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other.memory, BYTES, 0) == 0,
         "ibv_rereg_mr");
    other.region = from.region;
    from.region = NULL;
    post_write(&ends.a, 1, &other, &to);
    await(ends.a.sent, 1);
    must(strcmp(to.memory, "from the other memory") == 0, "the data");
    free_buffer(&from);
    free_buffer(&other);
    free_buffer(&to);
    close_ends(&ends);
}

void region_with_fewer_rights(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    must(ibv_rereg_mr(to.region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == 0,
         "ibv_rereg_mr");
    post_write(&ends.a, 1, &from, &to);
    must(await_any(ends.a.sent).status == IBV_WC_REM_ACCESS_ERR, "a refusal");
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}

// ---- threads and processes

struct traffic {
    struct ends ends;
    struct buffer from;
    struct buffer to;
    long long end_ms;
    atomic_int outstanding;
    atomic_long posted;
    atomic_long polled;
    atomic_int posting; // threads
};

static void write_in_parts(struct traffic* traffic) {
    struct ibv_qp_ex* const qp = start(&traffic->ends.a, 1);
    ibv_wr_rdma_write(qp, traffic->to.region->rkey, (uintptr_t)traffic->to.memory);
    set_piece(qp, &traffic->from);
    complete(qp);
}

static void* post_on(void* argument) {
    struct traffic* const traffic = argument;
    const int is_in_parts = traffic->posting++ == 0;
    while (now_ms() < traffic->end_ms) {
        if (traffic->outstanding++ >= REQUESTS / 2) {
            --traffic->outstanding;
            sched_yield();
            continue;
        }
        if (is_in_parts) {
            write_in_parts(traffic);
        } else {
            post_write(&traffic->ends.a, 1, &traffic->from, &traffic->to);
        }
        ++traffic->posted;
    }
    return NULL;
}

static void* poll_on(void* argument) {
    struct traffic* const traffic = argument;
    while (now_ms() < traffic->end_ms || traffic->outstanding != 0) {
        struct ibv_wc completions[3];
        const int count = ibv_poll_cq(traffic->ends.a.sent, 3, completions);
        for (int i = 0; i < count; ++i) {
            must(completions[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(completions[i].status));
        }
        must(count >= 0 && now_ms() < traffic->end_ms + 10000, "a completion");
        traffic->polled += count;
        traffic->outstanding -= count;
    }
    return NULL;
}

// Regions that no request names begin and end meanwhile.
static void* end_regions_on(void* argument) {
    struct traffic* const traffic = argument;
    while (now_ms() < traffic->end_ms) {
        struct buffer unused = make_buffer(&traffic->ends);
        free_buffer(&unused);
    }
    return NULL;
}

static void run_threads(int count) {
    void* (*const functions[])(void*) = {post_on, post_on, poll_on, poll_on, end_regions_on};
    struct traffic traffic = {.ends = open_ends(usual)};
    pthread_t running[5];
    traffic.from = make_buffer(&traffic.ends);
    traffic.to = make_buffer(&traffic.ends);
    traffic.end_ms = now_ms() + 1000;
    for (int i = 0; i < count; ++i) {
        must(pthread_create(&running[i], NULL, functions[i], &traffic) == 0, "pthread_create");
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(running[i], NULL);
    }
    must(traffic.posted > 0 && traffic.posted == traffic.polled, "a completion of each request");
    free_buffer(&traffic.from);
    free_buffer(&traffic.to);
    close_ends(&traffic.ends);
}

void threads(void) {
    run_threads(4);
}

void threads_that_end_regions(void) {
    run_threads(5);
}

void idle_child(void) {
    struct ends ends = open_ends(usual);
    struct buffer from = make_buffer(&ends);
    struct buffer to = make_buffer(&ends);
    int status = 0;
    post_write(&ends.a, 1, &from, &to);
    const pid_t child = fork();
    if (child == 0) {
        exit(0);
    }
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child");
    await(ends.a.sent, 1);
    free_buffer(&from);
    free_buffer(&to);
    close_ends(&ends);
}
