// SPDX-License-Identifier: BSD-3-Clause
//
// cancelled calls ADDRESS, and cancelled pair ADDRESS PORT: what a thread does with verbs that is cancelled
// (pthread_cancel) before it begins. It may end where it waits for an event, and in none of the other calls,
// as with the kernel's devices. "pair" does so in two processes that send each other messages.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 2000, BYTES = 8192 };

static void check(int fine, const char* what) {
    if (!fine) {
        perror(what);
        _exit(1);
    }
}

struct work {
    void (*body)(struct rdma_cm_id* id);
    struct rdma_cm_id* id;
};

static void* run_cancelled(void* argument) {
    const struct work* const work = argument;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    check(pthread_cancel(pthread_self()) == 0, "pthread_cancel");
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    work->body(work->id);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return NULL;
}

// Whether it ended before its BODY did.
static int is_cancelled_in(void (*body)(struct rdma_cm_id* id), struct rdma_cm_id* id) {
    struct work work = {body, id};
    pthread_t thread;
    void* ended = NULL;
    check(pthread_create(&thread, NULL, run_cancelled, &work) == 0, "pthread_create");
    check(pthread_join(thread, &ended) == 0, "pthread_join");
    return ended == PTHREAD_CANCELED;
}

// ---- calls on the device of ID

// Made before, since libibverbs opens files and closes them, where a thread may be cancelled.
static union ibv_gid own_gid;
static struct ibv_comp_channel* channel;

static struct ibv_qp* make_pair(struct ibv_pd* pd, struct ibv_cq* queue) {
    struct ibv_qp_init_attr init = {.send_cq = queue,
                                    .recv_cq = queue,
                                    .cap = {.max_send_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_UD};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
    struct ibv_qp* const pair = ibv_create_qp(pd, &init);
    check(pair != NULL, "ibv_create_qp");
    check(ibv_modify_qp(pair, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0,
          "INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(pair, &attr, IBV_QP_STATE) == 0, "RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(pair, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
    return pair;
}

// To an address where nobody is.
static void send_datagrams(struct ibv_qp* pair, const struct ibv_mr* region) {
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = own_gid, .hop_limit = 1}};
    to.grh.dgid.raw[15] ^= 1;
    struct ibv_ah* const ah = ibv_create_ah(pair->pd, &to);
    check(ah != NULL, "ibv_create_ah");
    struct ibv_sge piece = {(uintptr_t)region->addr, 64, region->lkey};
    struct ibv_send_wr request = {.sg_list = &piece,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.ud = {.ah = ah, .remote_qpn = 0x123456, .remote_qkey = 1}};
    struct ibv_send_wr* refused = NULL;
    for (int i = 0; i < 100; ++i) {
        struct ibv_wc completion;
        check(ibv_post_send(pair, &request, &refused) == 0, "ibv_post_send");
        while (ibv_poll_cq(pair->send_cq, 1, &completion) == 0) {
        }
        check(completion.status == IBV_WC_SUCCESS, "a datagram");
    }
    check(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
}

static void make_and_end_all(struct rdma_cm_id* id) {
    struct ibv_pd* const pd = ibv_alloc_pd(id->verbs);
    struct ibv_cq* const queue = ibv_create_cq(id->verbs, 16, NULL, channel, 0);
    check(pd != NULL && queue != NULL, "a domain and a queue");
    void* const memory = calloc(1, BYTES);
    struct ibv_mr* const region = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    check(region != NULL, "ibv_reg_mr");
    struct ibv_qp* const pair = make_pair(pd, queue);
    check(ibv_req_notify_cq(queue, 0) == 0, "ibv_req_notify_cq");
    send_datagrams(pair, region);
    check(ibv_destroy_qp(pair) == 0 && ibv_dereg_mr(region) == 0 && ibv_destroy_cq(queue) == 0, "an end");
    check(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
    free(memory);
}

static void await_completion(struct rdma_cm_id* id) {
    struct ibv_cq* const queue = ibv_create_cq(id->verbs, 16, NULL, channel, 0);
    struct ibv_cq* notified = NULL;
    void* context = NULL;
    check(queue != NULL && ibv_req_notify_cq(queue, 0) == 0, "a queue");
    (void)ibv_get_cq_event(channel, &notified, &context);
}

static void await_async_event(struct rdma_cm_id* id) {
    struct ibv_async_event event;
    (void)ibv_get_async_event(id->verbs, &event);
}

static void await_connection_event(struct rdma_cm_id* id) {
    struct rdma_cm_event* event = NULL;
    (void)rdma_get_cm_event(id->channel, &event);
}

static struct rdma_cm_id* open_device(const char* address) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE};
    struct rdma_addrinfo* found = NULL;
    struct rdma_cm_id* id = NULL;
    check(rdma_getaddrinfo(address, NULL, &hints, &found) == 0, "rdma_getaddrinfo");
    check(rdma_create_id(rdma_create_event_channel(), &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    check(rdma_bind_addr(id, found->ai_src_addr) == 0, "rdma_bind_addr");
    rdma_freeaddrinfo(found);
    return id;
}

static void try_calls(const char* address) {
    struct rdma_cm_id* const id = open_device(address);
    channel = ibv_create_comp_channel(id->verbs);
    check(channel != NULL && ibv_query_gid(id->verbs, 1, 0, &own_gid) == 0, "a channel and a GID");
    check(!is_cancelled_in(make_and_end_all, id), "calls that don't wait");
    check(is_cancelled_in(await_completion, id), "ibv_get_cq_event");
    check(is_cancelled_in(await_async_event, id), "ibv_get_async_event");
    check(is_cancelled_in(await_connection_event, id), "rdma_get_cm_event");
    // As good as before.
    check(!is_cancelled_in(make_and_end_all, id), "calls that don't wait, once more");
}

// ---- a pair

static char memory[BYTES];

static void await_one(struct ibv_cq* queue) {
    struct ibv_wc completion;
    int count = 0;
    while ((count = ibv_poll_cq(queue, 1, &completion)) == 0) {
    }
    check(count == 1 && completion.status == IBV_WC_SUCCESS, "a completion");
}

static void exchange(struct rdma_cm_id* id, int is_first) {
    struct ibv_mr* const region = ibv_reg_mr(id->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    check(region != NULL, "ibv_reg_mr");
    for (int i = 0; i < MESSAGES; ++i) {
        if (is_first) {
            check(rdma_post_send(id, NULL, memory, BYTES, region, IBV_SEND_SIGNALED) == 0, "a send");
            await_one(id->send_cq);
        }
        await_one(id->recv_cq);
        check(rdma_post_recv(id, NULL, memory, BYTES, region) == 0, "a receive");
        if (!is_first) {
            check(rdma_post_send(id, NULL, memory, BYTES, region, IBV_SEND_SIGNALED) == 0, "a send");
            await_one(id->send_cq);
        }
    }
    check(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
}

static void exchange_first(struct rdma_cm_id* id) {
    exchange(id, 1);
}

static void exchange_second(struct rdma_cm_id* id) {
    exchange(id, 0);
}

static struct rdma_cm_id* open_end(const char* address, const char* port, int flags) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags};
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_addrinfo* found = NULL;
    struct rdma_cm_id* end = NULL;
    check(rdma_getaddrinfo(address, port, &hints, &found) == 0, "rdma_getaddrinfo");
    check(rdma_create_ep(&end, found, NULL, &attr) == 0, "rdma_create_ep");
    rdma_freeaddrinfo(found);
    return end;
}

static void post_first_receive(struct rdma_cm_id* end) {
    struct ibv_mr* const region = ibv_reg_mr(end->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    check(region != NULL && rdma_post_recv(end, NULL, memory, BYTES, region) == 0, "the first receive");
}

static void await_end(struct rdma_cm_id* end) {
    struct rdma_cm_event* event = NULL;
    check(rdma_get_cm_event(end->channel, &event) == 0, "rdma_get_cm_event");
    check(event->event == RDMA_CM_EVENT_DISCONNECTED, rdma_event_str(event->event));
}

static void serve(struct rdma_cm_id* listener) {
    struct rdma_cm_id* end = NULL;
    check(rdma_get_request(listener, &end) == 0, "rdma_get_request");
    post_first_receive(end);
    check(rdma_accept(end, NULL) == 0, "rdma_accept");
    check(!is_cancelled_in(exchange_second, end), "the server's messages");
    await_end(end);
}

static void ask(const char* address, const char* port) {
    struct rdma_cm_id* const end = open_end(address, port, 0);
    post_first_receive(end);
    check(rdma_connect(end, NULL) == 0, "rdma_connect");
    check(!is_cancelled_in(exchange_first, end), "the client's messages");
    check(rdma_disconnect(end) == 0, "rdma_disconnect");
}

// The client begins when the server listens.
static void try_pair(const char* address, const char* port) {
    int listens[2];
    char byte = 0;
    check(pipe(listens) == 0, "pipe");
    const pid_t client = fork();
    check(client >= 0, "fork");
    if (client == 0) {
        (void)close(listens[1]);
        check(read(listens[0], &byte, 1) == 1, "a server");
        ask(address, port);
        _exit(0);
    }
    (void)close(listens[0]);
    struct rdma_cm_id* const listener = open_end(address, port, RAI_PASSIVE);
    check(rdma_listen(listener, 1) == 0, "rdma_listen");
    check(write(listens[1], &byte, 1) == 1, "the pipe");
    serve(listener);
    int status = -1;
    check(waitpid(client, &status, 0) == client && status == 0, "the client");
}

int main(int argc, char** argv) {
    (void)alarm(100); // a message that is lost
    if (argc == 3 && strcmp(argv[1], "calls") == 0) {
        try_calls(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "pair") == 0) {
        try_pair(argv[2], argv[3]);
    } else {
        fprintf(stderr, "usage: cancelled calls ADDRESS | pair ADDRESS PORT\n");
        return 2;
    }
    return 0;
}
