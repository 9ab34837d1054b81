// SPDX-License-Identifier: BSD-3-Clause
#include "pair.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SKIPPED = 77, REQUESTS = 64, AWAIT_MS = 10000 };

void needs_retries(const struct pair* pair) {
    if (pair->a.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
        fprintf(stderr, "skipped: iWARP ends a connection on which a message finds no receive\n");
        exit(SKIPPED);
    }
}

// ---- connecting

static struct ibv_cq* extended_cq(struct ibv_context* verbs, struct ibv_cq_init_attr_ex init) {
    struct ibv_cq_ex* const extended = ibv_create_cq_ex(verbs, &init);
    if (extended == NULL && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        fprintf(stderr, "skipped: this device has no such completion queue\n");
        exit(SKIPPED);
    }
    return extended != NULL ? ibv_cq_ex_to_cq(extended) : NULL;
}

static void make_queues(struct pair* pair, struct end* end, const struct options* options, int requests) {
    const int entries = options->sent_entries != 0 ? options->sent_entries : requests;
    struct ibv_context* const verbs = end->id->verbs;
    end->channel = ibv_create_comp_channel(verbs);
    must(end->channel != NULL, "ibv_create_comp_channel");
    const int is_shared = options->one_sent && end == &pair->b;
    end->sent = is_shared ? pair->a.sent : ibv_create_cq(verbs, entries, NULL, NULL, 0);
    if (options->received != NULL) {
        struct ibv_cq_init_attr_ex init = *options->received;
        init.cqe = REQUESTS;
        init.channel = end->channel;
        end->received = extended_cq(verbs, init);
    } else {
        end->received = ibv_create_cq(verbs, REQUESTS, NULL, end->channel, 0);
    }
    must(end->sent != NULL && end->received != NULL, "ibv_create_cq");
}

static void make_qp(struct pair* pair, struct end* end, const struct options* options) {
    const uint32_t requests = options->send_requests != 0 ? options->send_requests : REQUESTS;
    make_queues(pair, end, options, (int)requests);
    struct ibv_qp_init_attr_ex init = {
        .comp_mask =
            IBV_QP_INIT_ATTR_PD | (options->operations != 0 ? (uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0U),
        .pd = pair->pd,
        .send_ops_flags = options->operations,
        .send_cq = end->sent,
        .recv_cq = end->received,
        .srq = pair->shared,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = requests,
                .max_recv_wr = REQUESTS,
                .max_send_sge = options->send_pieces != 0 ? options->send_pieces : 1,
                .max_recv_sge = 1,
                .max_inline_data = options->inline_bytes}};
    if (rdma_create_qp_ex(end->id, &init) != 0) {
        if (options->operations != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
            fprintf(stderr, "skipped: this device has no such operations\n");
            exit(SKIPPED);
        }
        must(0, "rdma_create_qp_ex");
    }
    end->cap = init.cap;
}

static void make_shared(struct pair* pair, uint32_t places) {
    struct ibv_srq_init_attr init = {.attr = {.max_wr = places, .max_sge = 1}};
    if (places != 0) {
        pair->shared = ibv_create_srq(pair->pd, &init);
        must(pair->shared != NULL, "ibv_create_srq");
    }
}

// What each end says here is for the other end's messages.
static struct rdma_conn_param parameters(const struct pair* pair) {
    const struct rdma_conn_param parameters = {.responder_resources = pair->reads,
                                               .initiator_depth = pair->reads,
                                               .retry_count = 7,
                                               .rnr_retry_count = pair->retries};
    return parameters;
}

void pair_open(struct pair* pair, const struct options* options) {
    struct sockaddr_in address;
    memset(pair, 0, sizeof *pair);
    pair->retries = options->no_retries ? 0 : 7;
    pair->reads = options->no_reads ? 0 : 1;
    pair->events = rdma_create_event_channel();
    must(pair->events != NULL, "rdma_create_event_channel");
    pair->listener = make_listener(pair->events, &address);
    pair->a.id = make_client(pair->events, address);
    pair->pd = ibv_alloc_pd(pair->a.id->verbs);
    must(pair->pd != NULL, "ibv_alloc_pd");
    make_shared(pair, options->shared_places);
    make_qp(pair, &pair->a, options);
    struct rdma_conn_param ask = parameters(pair);
    must(rdma_connect(pair->a.id, &ask) == 0, "rdma_connect");
    pair->b.id = expect(pair->events, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_qp(pair, &pair->b, options);
}

// librdmacm leaves 655 ms until a message that found no receive comes again. This makes it 10 us.
static void shorten_retries(const struct end* end) {
    struct ibv_qp_attr attr = {.min_rnr_timer = 1};
    if (end->id->verbs->device->transport_type != IBV_TRANSPORT_IWARP) {
        must(ibv_modify_qp(end->id->qp, &attr, IBV_QP_MIN_RNR_TIMER) == 0, "ibv_modify_qp");
    }
}

void pair_connect(struct pair* pair) {
    struct rdma_conn_param accept = parameters(pair);
    must(rdma_accept(pair->b.id, &accept) == 0, "rdma_accept");
    expect(pair->events, RDMA_CM_EVENT_ESTABLISHED);
    expect(pair->events, RDMA_CM_EVENT_ESTABLISHED);
    shorten_retries(&pair->a);
    shorten_retries(&pair->b);
}

struct ibv_qp_ex* end_by_calls(const struct end* end) {
    struct ibv_qp_ex* const qp = ibv_qp_to_qp_ex(end->id->qp);
    must(qp != NULL, "ibv_qp_to_qp_ex");
    return qp;
}

void end_flush(struct end* end) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(end->id->qp, &attr, IBV_QP_STATE); // iWARP refuses what has happened already
    while (end->receives != 0) {
        await_received(end);
    }
}

void end_destroy_qp(struct end* end) {
    rdma_destroy_qp(end->id);
}

static void close_qp(struct end* end) {
    if (end->id->qp != NULL) {
        rdma_disconnect(end->id); // may have happened already
        end_flush(end);
        end_destroy_qp(end);
    }
}

void pair_destroy_shared(struct pair* pair) {
    close_qp(&pair->a);
    close_qp(&pair->b);
    must(ibv_destroy_srq(pair->shared) == 0, "ibv_destroy_srq");
    pair->shared = NULL;
}

static void close_queues(struct end* end) {
    must(ibv_destroy_cq(end->received) == 0, "ibv_destroy_cq");
    must(ibv_destroy_comp_channel(end->channel) == 0, "ibv_destroy_comp_channel");
}

void pair_close(struct pair* pair) {
    close_qp(&pair->a);
    close_qp(&pair->b);
    must(ibv_destroy_cq(pair->a.sent) == 0, "ibv_destroy_cq");
    must(pair->b.sent == pair->a.sent || ibv_destroy_cq(pair->b.sent) == 0, "ibv_destroy_cq");
    close_queues(&pair->a);
    close_queues(&pair->b);
    must(pair->shared == NULL || ibv_destroy_srq(pair->shared) == 0, "ibv_destroy_srq");
    must(ibv_dealloc_pd(pair->pd) == 0, "ibv_dealloc_pd");
    must(rdma_destroy_id(pair->a.id) == 0, "rdma_destroy_id");
    must(rdma_destroy_id(pair->b.id) == 0, "rdma_destroy_id");
    must(rdma_destroy_id(pair->listener) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(pair->events);
}

// ---- requests

void* whole_pages(size_t bytes) {
    const size_t largest_page = 65536;
    const size_t rounded = (bytes + largest_page - 1) / largest_page * largest_page;
    void* const memory = aligned_alloc(largest_page, rounded);
    must(memory != NULL, "aligned_alloc");
    return memset(memory, 0, rounded);
}

struct ibv_mr* register_memory(struct pair* pair, void* memory, size_t bytes, int more_access) {
    const int access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | more_access;
    struct ibv_mr* const region = ibv_reg_mr(pair->pd, memory, bytes, access);
    must(region != NULL, "ibv_reg_mr");
    return region;
}

struct ibv_mw* make_window(struct pair* pair, enum ibv_mw_type type) {
    struct ibv_mw* const window = ibv_alloc_mw(pair->pd, type);
    if (window == NULL) {
        fprintf(stderr, "skipped: this device has no memory windows\n");
        exit(SKIPPED);
    }
    return window;
}

void bind_window(struct end* end, struct ibv_mw* window, struct ibv_mr* region) {
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = region,
                                             .addr = (uintptr_t)region->addr,
                                             .length = region->length,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    errno = ibv_bind_mw(end->id->qp, window, &bind);
    must(errno == 0, "ibv_bind_mw");
    must(await_sent(end).status == IBV_WC_SUCCESS, "a bind");
}

int post(struct end* end, enum ibv_wr_opcode opcode, const struct ibv_mr* region, const void* local,
         size_t bytes, struct remote remote, unsigned flags) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_send_wr request = {.opcode = opcode,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .send_flags = flags,
                                  .wr.rdma = {.remote_addr = remote.address, .rkey = remote.key}};
    struct ibv_send_wr* bad = NULL;
    return ibv_post_send(end->id->qp, &request, &bad);
}

int post_add(struct end* end, const struct ibv_mr* region, const void* result, size_t bytes,
             struct remote remote, uint64_t summand) {
    struct ibv_sge piece = {.addr = (uintptr_t)result, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .sg_list = &piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = {.remote_addr = remote.address, .rkey = remote.key, .compare_add = summand}};
    struct ibv_send_wr* bad = NULL;
    return ibv_post_send(end->id->qp, &request, &bad);
}

void post_message(struct end* end, const struct ibv_mr* region, const void* local, size_t bytes) {
    const struct remote nowhere = {0, 0};
    errno = post(end, IBV_WR_SEND, region, local, bytes, nowhere, IBV_SEND_SIGNALED);
    must(errno == 0, "ibv_post_send");
}

void post_receive(struct end* end, const struct ibv_mr* region, void* local, size_t bytes) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_recv_wr request = {.wr_id = (uintptr_t)local, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    errno = ibv_post_recv(end->id->qp, &request, &bad);
    must(errno == 0, "ibv_post_recv");
    ++end->receives;
}

void post_shared(struct pair* pair, const struct ibv_mr* region, void* local, size_t bytes) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_recv_wr request = {.wr_id = (uintptr_t)local, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    errno = ibv_post_srq_recv(pair->shared, &request, &bad);
    must(errno == 0, "ibv_post_srq_recv");
}

// ---- waiting

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int poll_for(struct ibv_cq* queue, int ms, struct ibv_wc* completion) {
    const long long end_ms = now_ms() + ms;
    int count = 0;
    while ((count = ibv_poll_cq(queue, 1, completion)) == 0 && now_ms() < end_ms) {
        sched_yield();
    }
    must(count >= 0, "ibv_poll_cq");
    return count;
}

struct ibv_wc await_completion(struct ibv_cq* queue) {
    struct ibv_wc completion;
    errno = ETIMEDOUT;
    must(poll_for(queue, AWAIT_MS, &completion) == 1, "awaiting a completion");
    return completion;
}

struct ibv_wc await_sent(struct end* end) {
    return await_completion(end->sent);
}

struct ibv_wc await_received(struct end* end) {
    const struct ibv_wc completion = await_completion(end->received);
    end->receives -= end->receives != 0; // those of a shared queue aren't counted
    return completion;
}

int device_reports(struct ibv_context* verbs, enum ibv_event_type event, int ms) {
    struct pollfd events = {.fd = verbs->async_fd, .events = POLLIN};
    struct ibv_async_event reported;
    if (poll(&events, 1, ms) != 1 || ibv_get_async_event(verbs, &reported) != 0) {
        return 0;
    }
    ibv_ack_async_event(&reported);
    return reported.event_type == event;
}

int count_sent(struct end* end, int most) {
    struct ibv_wc completion;
    int count = 0;
    for (int idle_ms = 0; count < most && idle_ms < patience_ms();) {
        const int got = ibv_poll_cq(end->sent, 1, &completion);
        if (got < 0 || (got == 0 && device_reports(end->id->verbs, IBV_EVENT_CQ_ERR, 1))) {
            break;
        }
        count += got;
        idle_ms = got == 0 ? idle_ms + 1 : 0;
    }
    return count;
}

int take_event(struct end* end) {
    struct pollfd events = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq* queue = NULL;
    void* context = NULL;
    if (poll(&events, 1, patience_ms()) != 1) {
        return 0;
    }
    must(ibv_get_cq_event(end->channel, &queue, &context) == 0, "ibv_get_cq_event");
    ibv_ack_cq_events(queue, 1);
    return 1;
}
