// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a completion queue is made with IBV_CREATE_CQ_ATTR_SINGLE_THREADED, and two threads poll it.
//
// What happens: the flag leaves out the lock, and between ibv_start_poll() and ibv_end_poll() the queue
// belongs to one thread. A second one in between gets the same completion again, or half of it, and the
// queue's state is broken. It takes a moment of nanoseconds, and here the second thread waits for it.
//
// Reported: the same happens where a library takes no lock by itself: libfabric's PSM provider crashed when
// two threads read one queue (ofiwg/libfabric 1278).
//
// Remedy: one thread polls, and hands on what it finds; or a queue without the flag.
#include <errno.h>
#include <pthread.h>

#include "pair.h"

enum { MESSAGES = 2 };

static char to[MESSAGES][8];
static unsigned processed[MESSAGES];

struct worker {
    struct ibv_cq_ex* queue; // where it finds its message; null: it was handed this one
    uint64_t message;
};

static uint64_t first_of(struct ibv_cq_ex* queue) {
    struct ibv_poll_cq_attr attr = {0};
    errno = ibv_start_poll(queue, &attr);
    must(errno == 0, "ibv_start_poll");
    return queue->wr_id;
}

static void process(uint64_t message) {
    ++processed[(message - (uintptr_t)to) / sizeof to[0]];
}

static void* work(void* argument) {
    struct worker* const worker = argument;
    if (worker->queue != NULL) {
        worker->message = first_of(worker->queue);
        ibv_end_poll(worker->queue);
    }
    process(worker->message);
    return NULL;
}

// Two messages lie in the queue: one for this thread, one for another.
static void share(struct ibv_cq_ex* queue) {
    struct worker worker = {NULL, 0};
    pthread_t thread;
    process(first_of(queue));
#ifdef CORRECTED
    must(ibv_next_poll(queue) == 0, "ibv_next_poll");
    worker.message = queue->wr_id;
#else
    worker.queue = queue;
#endif
    must(pthread_create(&thread, NULL, work, &worker) == 0, "pthread_create");
    must(pthread_join(thread, NULL) == 0, "pthread_join");
    ibv_end_poll(queue);
}

int main(void) {
    static char from[8] = "hello";
    const struct ibv_cq_init_attr_ex single = {.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                               .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    const struct options options = {.received = &single};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < MESSAGES; ++i) {
        post_receive(&pair.b, target, to[i], sizeof to[i]);
        post_message(&pair.a, source, from, sizeof from);
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
    }
    share((struct ibv_cq_ex*)pair.b.received);
    pair.b.receives = 0;
    const int right = processed[0] == 1 && processed[1] == 1;

    end_destroy_qp(&pair.b); // takes a message with it that nobody polled
    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "a message is processed twice");
}
