// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of check_program.c that are near to a mistake of a wait or of a batch.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

#include "check_cases.h"

// What a compiler makes of poll() where it knows the array's size.
extern int __poll_chk(struct pollfd* descriptors, nfds_t count, int timeout_ms, // NOLINT: glibc's name
                      size_t bytes);

static const struct options usual = {0};

struct messages {
    struct ends ends;
    struct buffer from;
    struct buffer to;
};

static struct messages open_messages(void) {
    struct messages messages = {.ends = open_ends(usual)};
    messages.from = make_buffer(&messages.ends);
    messages.to = make_buffer(&messages.ends);
    return messages;
}

static void close_messages(struct messages* messages) {
    free_buffer(&messages->from);
    free_buffer(&messages->to);
    close_ends(&messages->ends);
}

static void arm(struct end* end) {
    must(ibv_req_notify_cq(end->sent, 0) == 0, "ibv_req_notify_cq");
}

static void take_event(struct end* end) {
    struct ibv_cq* queue = NULL;
    void* context = NULL;
    must(ibv_get_cq_event(end->channel, &queue, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(queue, 1);
}

// What the queue has of a queue pair that ends: one completion that a checker may have looked at, as a region
// ended behind it, and one that came later.
static void count_left_by(int (*finish)(struct end* end)) {
    struct messages messages = open_messages();
    struct buffer other = make_buffer(&messages.ends);
    struct end* const a = &messages.ends.a;
    struct ibv_wc completion;
    int left = 0;
    for (uint64_t id = 1; id <= 2; ++id) {
        arm(a);
        post_write(a, id, &messages.from, &messages.to);
        take_event(a);
        if (id == 1) {
            end_region(&other);
        }
    }
    must(finish(a) == 0, "the queue pair's end");
    while (ibv_poll_cq(a->sent, 1, &completion) == 1) {
        ++left;
    }
    printf("%d completions are left\n", left);
    free_buffer(&other);
    close_messages(&messages);
}

static int reset(struct end* end) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

void left_by_a_reset_pair(void) {
    count_left_by(reset);
}

static int destroy(struct end* end) {
    const int error = ibv_destroy_qp(end->qp);
    end->qp = NULL;
    return error;
}

void left_by_a_destroyed_pair(void) {
    count_left_by(destroy);
}

static void* write_second(void* argument) {
    struct messages* const messages = argument;
    post_write(&messages->ends.a, 2, &messages->from, &messages->to);
    return NULL;
}

// The one that is taken behind the arming is the only one that there is, and another one comes later.
void one_at_a_time(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    pthread_t thread;
    arm(a);
    post_write(a, 1, &messages.from, &messages.to);
    take_event(a);
    arm(a);
    await(a->sent, 1); // polls for one
    must(pthread_create(&thread, NULL, write_second, &messages) == 0, "pthread_create");
    take_event(a);
    await(a->sent, 2);
    must(pthread_join(thread, NULL) == 0, "pthread_join");
    close_messages(&messages);
}

// Two lie there, one is taken, and the thread waits.
void one_left(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    struct pollfd event = {.fd = a->channel->fd, .events = POLLIN};
    arm(a);
    post_write(a, 1, &messages.from, &messages.to);
    take_event(a);
    post_write(a, 2, &messages.from, &messages.to);
    arm(a);
    await(a->sent, 1);
    must(poll(&event, 1, 100) == 0, "no event");
    await(a->sent, 2);
    close_messages(&messages);
}

static void write_in_batch(struct ibv_qp_ex* qp, uint64_t id, unsigned flags,
                           const struct messages* messages) {
    qp->wr_id = id;
    qp->wr_flags = flags;
    ibv_wr_rdma_write(qp, messages->to.region->rkey, (uintptr_t)messages->to.memory);
    set_piece(qp, &messages->from);
}

// Each request has flags of its own, and fewer are set behind the last one.
void flags_in_turns(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    struct ibv_qp_ex* const qp = start(a, 1);
    write_in_batch(qp, 1, 0, &messages);
    write_in_batch(qp, 2, IBV_SEND_SIGNALED, &messages);
    write_in_batch(qp, 3, 0, &messages);
    write_in_batch(qp, 4, IBV_SEND_SIGNALED | IBV_SEND_FENCE, &messages);
    qp->wr_flags = 0;
    complete(qp);
    await(a->sent, 2);
    await(a->sent, 4);
    close_messages(&messages);
}

void flags_too_late(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    struct ibv_qp_ex* qp = start(a, 1);
    write_in_batch(qp, 1, 0, &messages);
    qp->wr_flags = IBV_SEND_SIGNALED;
    complete(qp);
    qp = start(a, 2);
    write_in_batch(qp, 2, IBV_SEND_SIGNALED, &messages);
    complete(qp);
    await(a->sent, 2);
    close_messages(&messages);
}

void given_up_and_begun(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    struct ibv_qp_ex* qp = start(a, 1);
    write_in_batch(qp, 1, IBV_SEND_SIGNALED, &messages);
    ibv_wr_abort(qp);
    qp = start(a, 2);
    write_in_batch(qp, 2, IBV_SEND_SIGNALED, &messages);
    complete(qp);
    await(a->sent, 2);
    close_messages(&messages);
}

// ---- waits for several descriptors

enum { SHORT_MS = 100 };

static int make_epoll(const int* descriptors, int count) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    must(epoll >= 0, "epoll_create1");
    for (int i = 0; i < count; ++i) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = descriptors[i]};
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptors[i], &wanted) == 0, "epoll_ctl");
    }
    return epoll;
}

static int make_silent(void) {
    const int silent = eventfd(0, EFD_CLOEXEC);
    must(silent >= 0, "eventfd");
    return silent;
}

// The completion that comes between the event and the arming brings none: it has to be looked for.
static struct messages open_unseen(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    post_write(a, 1, &messages.from, &messages.to);
    await(a->sent, 1);
    arm(a);
    post_write(a, 2, &messages.from, &messages.to);
    take_event(a);
    arm(a);
    return messages;
}

static void close_unseen(struct messages* messages) {
    await(messages->ends.a.sent, 2);
    close_messages(messages);
}

void unseen_in_epoll(void) {
    struct messages messages = open_unseen();
    const int silent = make_silent();
    const int epoll = make_epoll((int[]){silent, messages.ends.a.channel->fd}, 2);
    struct epoll_event event;
    must(epoll_wait(epoll, &event, 1, SHORT_MS) == 0, "no event");
    must(close(epoll) == 0 && close(silent) == 0, "close");
    close_unseen(&messages);
}

void unseen_in_select(void) {
    struct messages messages = open_unseen();
    const int fd = messages.ends.a.channel->fd;
    const int silent = make_silent();
    struct timeval timeout = {.tv_usec = 1000L * SHORT_MS};
    fd_set read;
    FD_ZERO(&read);
    FD_SET(fd, &read);
    FD_SET(silent, &read);
    must(select((fd > silent ? fd : silent) + 1, &read, NULL, NULL, &timeout) == 0, "no event");
    must(close(silent) == 0, "close");
    close_unseen(&messages);
}

void unseen_in_counted_poll(void) {
    struct messages messages = open_unseen();
    struct pollfd event = {.fd = messages.ends.a.channel->fd, .events = POLLIN};
    must(__poll_chk(&event, 1, SHORT_MS, sizeof event) == 0, "no event");
    close_unseen(&messages);
}

static void* wait_in_poll(void* argument) {
    struct end* const end = argument;
    struct pollfd event = {.fd = end->channel->fd, .events = POLLIN};
    must(poll(&event, 1, SHORT_MS) == 0, "no event");
    return NULL;
}

// Two threads take turns with one channel: the one that has armed it looks next, and the other one waits.
void looked_at_by_another(void) {
    struct messages messages = open_unseen();
    pthread_t thread;
    must(pthread_create(&thread, NULL, wait_in_poll, &messages.ends.a) == 0, "pthread_create");
    must(pthread_join(thread, NULL) == 0, "pthread_join");
    close_unseen(&messages);
}

// An event was taken, and its completion polled.
static struct messages open_unarmed(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    arm(a);
    post_write(a, 1, &messages.from, &messages.to);
    take_event(a);
    await(a->sent, 1);
    return messages;
}

void unarmed_in_epoll(void) {
    struct messages messages = open_unarmed();
    const int epoll = make_epoll(&messages.ends.a.channel->fd, 1);
    struct epoll_event event;
    must(epoll_wait(epoll, &event, 1, SHORT_MS) == 0, "no event");
    must(close(epoll) == 0, "close");
    close_messages(&messages);
}

// Something else may wake the thread, and lead it to arm.
void unarmed_beside_another(void) {
    struct messages messages = open_unarmed();
    const int silent = make_silent();
    const int epoll = make_epoll((int[]){silent, messages.ends.a.channel->fd}, 2);
    struct epoll_event event;
    must(epoll_wait(epoll, &event, 1, SHORT_MS) == 0, "no event");
    must(close(epoll) == 0 && close(silent) == 0, "close");
    close_messages(&messages);
}

void epoll_in_turns(void) {
    struct messages messages = open_messages();
    struct end* const a = &messages.ends.a;
    const int epoll = make_epoll(&a->channel->fd, 1);
    arm(a);
    for (uint64_t id = 1; id <= 3; ++id) {
        struct epoll_event event;
        post_write(a, id, &messages.from, &messages.to);
        must(epoll_wait(epoll, &event, 1, -1) == 1, "an event");
        take_event(a);
        arm(a);
        await(a->sent, id);
    }
    must(close(epoll) == 0, "close");
    close_messages(&messages);
}

static void* wait_cancelled(void* argument) {
    const struct end* const end = argument;
    struct ibv_cq* queue = NULL;
    void* context = NULL;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    must(pthread_cancel(pthread_self()) == 0, "pthread_cancel");
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    (void)ibv_get_cq_event(end->channel, &queue, &context);
    return NULL;
}

void cancelled_wait(void) {
    struct messages messages = open_unarmed();
    struct end* const a = &messages.ends.a;
    pthread_t thread;
    void* ended = NULL;
    arm(a);
    must(pthread_create(&thread, NULL, wait_cancelled, a) == 0, "pthread_create");
    must(pthread_join(thread, &ended) == 0 && ended == PTHREAD_CANCELED, "a cancelled thread");
    close_messages(&messages);
}
