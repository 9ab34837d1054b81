// SPDX-License-Identifier: BSD-3-Clause
#include "check_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAILED = 2, AWAIT_MS = 10000, LENGTH = 64 };

void must(int fine, const char* what) {
    if (!fine) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(FAILED);
    }
}

long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

// ---- making

static void find_device(struct ends* ends) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char* text = getenv("TEST_ADDRESS");
    must(text != NULL && inet_pton(AF_INET, text, &address.sin_addr) == 1, "TEST_ADDRESS");
    ends->events = rdma_create_event_channel();
    must(ends->events != NULL, "rdma_create_event_channel");
    must(rdma_create_id(ends->events, &ends->id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(ends->id, (struct sockaddr*)&address) == 0, "rdma_bind_addr");
    ends->verbs = ends->id->verbs;
}

static struct ibv_cq* make_queue(struct ends* ends, struct ibv_comp_channel* channel, int is_extended) {
    struct ibv_cq_init_attr_ex init = {.cqe = 2 * REQUESTS, .channel = channel};
    if (!is_extended) {
        return ibv_create_cq(ends->verbs, 2 * REQUESTS, NULL, channel, 0);
    }
    struct ibv_cq_ex* const made = ibv_create_cq_ex(ends->verbs, &init);
    return made != NULL ? ibv_cq_ex_to_cq(made) : NULL;
}

static void make_end(struct ends* ends, struct end* end, int is_extended) {
    end->channel = ibv_create_comp_channel(ends->verbs);
    must(end->channel != NULL, "ibv_create_comp_channel");
    end->sent = make_queue(ends, end->channel, is_extended);
    end->received = make_queue(ends, NULL, is_extended);
    must(end->sent != NULL && end->received != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr_ex init = {.send_cq = end->sent,
                                       .recv_cq = end->received,
                                       .srq = ends->shared,
                                       .qp_type = IBV_QPT_RC,
                                       .cap = {.max_send_wr = REQUESTS,
                                               .max_recv_wr = REQUESTS,
                                               .max_send_sge = PIECES,
                                               .max_recv_sge = 1,
                                               .max_inline_data = INLINE_BYTES},
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = ends->pd,
                                       .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                                                         IBV_QP_EX_WITH_RDMA_READ |
                                                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
    end->qp = ibv_create_qp_ex(ends->verbs, &init);
    must(end->qp != NULL, "ibv_create_qp_ex");
    end->places = init.cap.max_send_wr;
}

static void initialise(struct end* end) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_ATOMIC};
    errno =
        ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    must(errno == 0, "ibv_modify_qp to INIT");
}

static void connect_to(struct ends* ends, struct end* end, const struct end* peer) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer->qp->qp_num,
                               .max_dest_rd_atomic = 4,
                               .max_rd_atomic = 4,
                               .min_rnr_timer = 1,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 7, // without end
                               .ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64}};
    const char* const index = getenv("LAB_GID_INDEX");
    attr.ah_attr.grh.sgid_index = (uint8_t)(index != NULL ? strtol(index, NULL, 10) : 0);
    must(ibv_query_gid(ends->verbs, 1, attr.ah_attr.grh.sgid_index, &attr.ah_attr.grh.dgid) == 0,
         "ibv_query_gid");
    errno = ibv_modify_qp(end->qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    must(errno == 0, "ibv_modify_qp to RTR");
    attr.qp_state = IBV_QPS_RTS;
    errno = ibv_modify_qp(end->qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    must(errno == 0, "ibv_modify_qp to RTS");
}

struct ends open_ends(struct options options) {
    struct ends ends = {0};
    struct ibv_srq_init_attr init = {.attr = {.max_wr = REQUESTS, .max_sge = 1}};
    find_device(&ends);
    ends.pd = ibv_alloc_pd(ends.verbs);
    must(ends.pd != NULL, "ibv_alloc_pd");
    ends.shared = options.is_shared ? ibv_create_srq(ends.pd, &init) : NULL;
    must(!options.is_shared || ends.shared != NULL, "ibv_create_srq");
    make_end(&ends, &ends.a, options.is_extended);
    make_end(&ends, &ends.b, options.is_extended);
    initialise(&ends.a);
    initialise(&ends.b);
    if (!options.is_apart) {
        connect_to(&ends, &ends.a, &ends.b);
        connect_to(&ends, &ends.b, &ends.a);
    }
    return ends;
}

static void close_end(struct end* end) {
    must(end->qp == NULL || ibv_destroy_qp(end->qp) == 0, "ibv_destroy_qp");
    must(ibv_destroy_cq(end->sent) == 0, "ibv_destroy_cq");
    must(ibv_destroy_cq(end->received) == 0, "ibv_destroy_cq");
    must(ibv_destroy_comp_channel(end->channel) == 0, "ibv_destroy_comp_channel");
}

void close_ends(struct ends* ends) {
    close_end(&ends->a);
    close_end(&ends->b);
    must(ends->shared == NULL || ibv_destroy_srq(ends->shared) == 0, "ibv_destroy_srq");
    must(ibv_dealloc_pd(ends->pd) == 0, "ibv_dealloc_pd");
    must(rdma_destroy_id(ends->id) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(ends->events);
}

// ---- memory

struct buffer make_buffer(struct ends* ends) {
    struct buffer made = {.memory = aligned_alloc(BYTES, BYTES)};
    must(made.memory != NULL, "aligned_alloc");
    memset(made.memory, 0, BYTES);
    made.region = ibv_reg_mr(ends->pd, made.memory, BYTES,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                 IBV_ACCESS_REMOTE_ATOMIC);
    must(made.region != NULL, "ibv_reg_mr");
    return made;
}

void end_region(struct buffer* buffer) {
    must(ibv_dereg_mr(buffer->region) == 0, "ibv_dereg_mr");
    buffer->region = NULL;
}

void free_buffer(struct buffer* buffer) {
    if (buffer->region != NULL) {
        end_region(buffer);
    }
    free(buffer->memory);
}

// ---- requests

struct ibv_sge piece_of(const struct buffer* buffer) {
    const struct ibv_sge piece = {
        .addr = (uintptr_t)buffer->memory, .length = LENGTH, .lkey = buffer->region->lkey};
    return piece;
}

void post_send(struct end* end, uint64_t id, const struct buffer* buffer, unsigned flags) {
    struct ibv_sge piece = piece_of(buffer);
    struct ibv_send_wr request = {.wr_id = id,
                                  .opcode = IBV_WR_SEND,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .send_flags = flags | IBV_SEND_SIGNALED};
    struct ibv_send_wr* bad = NULL;
    errno = ibv_post_send(end->qp, &request, &bad);
    must(errno == 0, "ibv_post_send");
}

void post_write(struct end* end, uint64_t id, const struct buffer* from, const struct buffer* to) {
    struct ibv_sge piece = piece_of(from);
    struct ibv_send_wr request = {
        .wr_id = id,
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)to->memory, .rkey = to->region->rkey}};
    struct ibv_send_wr* bad = NULL;
    errno = ibv_post_send(end->qp, &request, &bad);
    must(errno == 0, "ibv_post_send");
}

void post_receive(struct end* end, uint64_t id, const struct buffer* buffer) {
    struct ibv_sge piece = piece_of(buffer);
    struct ibv_recv_wr request = {.wr_id = id, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    errno = ibv_post_recv(end->qp, &request, &bad);
    must(errno == 0, "ibv_post_recv");
}

void post_shared(struct ends* ends, uint64_t id, const struct buffer* buffer) {
    struct ibv_sge piece = piece_of(buffer);
    struct ibv_recv_wr request = {.wr_id = id, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    errno = ibv_post_srq_recv(ends->shared, &request, &bad);
    must(errno == 0, "ibv_post_srq_recv");
}

struct ibv_wc await_any(struct ibv_cq* queue) {
    const long long end_ms = now_ms() + AWAIT_MS;
    struct ibv_wc completion = {0};
    int count = 0;
    while ((count = ibv_poll_cq(queue, 1, &completion)) == 0 && now_ms() < end_ms) {
        sched_yield();
    }
    must(count == 1, "awaiting a completion");
    return completion;
}

void await(struct ibv_cq* queue, uint64_t id) {
    const struct ibv_wc completion = await_any(queue);
    must(completion.status == IBV_WC_SUCCESS, ibv_wc_status_str(completion.status));
    must(completion.wr_id == id, "the completion of another request");
}
