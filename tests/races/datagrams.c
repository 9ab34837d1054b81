// SPDX-License-Identifier: BSD-3-Clause
#include "datagrams.h"

#include <errno.h>
#include <string.h>

enum { REQUESTS = 16 };

// The place of ADDRESS in the table of the device's port. RoCE writes IPv4 addresses as ::ffff:a.b.c.d.
static uint8_t find_gid(const struct rdma_cm_id* id, struct in_addr address) {
    union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}};
    struct ibv_port_attr port;
    memcpy(wanted.raw + 12, &address, sizeof address);
    must(ibv_query_port(id->verbs, id->port_num, &port) == 0, "ibv_query_port");
    for (int i = 0; i < port.gid_tbl_len && i < UINT8_MAX; ++i) {
        union ibv_gid gid;
        if (ibv_query_gid(id->verbs, id->port_num, i, &gid) == 0 && memcmp(&gid, &wanted, sizeof gid) == 0) {
            return (uint8_t)i;
        }
    }
    errno = EADDRNOTAVAIL;
    must(0, "the address among the device's GIDs");
    return 0;
}

static void move(struct ibv_qp* qp, struct ibv_qp_attr attr, int mask) {
    errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
    must(errno == 0, "ibv_modify_qp");
}

static void open_end(struct datagrams* datagrams, struct datagram_end* end) {
    const struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = datagrams->id->port_num, .qkey = Q_KEY};
    const struct ibv_qp_attr receives = {.qp_state = IBV_QPS_RTR}, sends = {.qp_state = IBV_QPS_RTS};
    end->queue = ibv_create_cq(datagrams->id->verbs, 2 * REQUESTS, NULL, NULL, 0);
    must(end->queue != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr wanted = {
        .send_cq = end->queue,
        .recv_cq = end->queue,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = REQUESTS, .max_recv_wr = REQUESTS, .max_send_sge = 1, .max_recv_sge = 1}};
    end->qp = ibv_create_qp(datagrams->pd, &wanted);
    must(end->qp != NULL, "ibv_create_qp");
    move(end->qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    move(end->qp, receives, 0);
    move(end->qp, sends, IBV_QP_SQ_PSN);
}

void datagrams_open(struct datagrams* datagrams) {
    const struct sockaddr_in address = own_address();
    datagrams->id = make_id_of_device(address);
    datagrams->gid = find_gid(datagrams->id, address.sin_addr);
    datagrams->pd = ibv_alloc_pd(datagrams->id->verbs);
    must(datagrams->pd != NULL, "ibv_alloc_pd");
    open_end(datagrams, &datagrams->a);
    open_end(datagrams, &datagrams->b);
}

static void destroy_qp(struct datagram_end* end) {
    must(end->qp == NULL || ibv_destroy_qp(end->qp) == 0, "ibv_destroy_qp");
    end->qp = NULL;
}

void datagrams_destroy_qps(struct datagrams* datagrams) {
    destroy_qp(&datagrams->a);
    destroy_qp(&datagrams->b);
}

void datagrams_close(struct datagrams* datagrams) {
    datagrams_destroy_qps(datagrams);
    must(ibv_destroy_cq(datagrams->a.queue) == 0, "ibv_destroy_cq");
    must(ibv_destroy_cq(datagrams->b.queue) == 0, "ibv_destroy_cq");
    must(ibv_dealloc_pd(datagrams->pd) == 0, "ibv_dealloc_pd");
    must(rdma_destroy_id(datagrams->id) == 0, "rdma_destroy_id");
}

struct ibv_ah* make_address_handle(struct datagrams* datagrams) {
    struct ibv_ah_attr attr = {.is_global = 1,
                               .port_num = datagrams->id->port_num,
                               .grh = {.sgid_index = datagrams->gid, .hop_limit = 64}};
    must(ibv_query_gid(datagrams->id->verbs, datagrams->id->port_num, datagrams->gid, &attr.grh.dgid) == 0,
         "ibv_query_gid");
    struct ibv_ah* const ah = ibv_create_ah(datagrams->pd, &attr);
    must(ah != NULL, "ibv_create_ah");
    return ah;
}

struct ibv_mr* register_for_datagrams(struct datagrams* datagrams, void* memory, size_t bytes) {
    struct ibv_mr* const region = ibv_reg_mr(datagrams->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    must(region != NULL, "ibv_reg_mr");
    return region;
}

void send_datagram(struct datagrams* datagrams, struct ibv_ah* ah, uint32_t q_key,
                   const struct ibv_mr* region, const void* local, size_t bytes) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_SEND,
        .sg_list = &piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = ah, .remote_qpn = datagrams->b.qp->qp_num, .remote_qkey = q_key}};
    struct ibv_send_wr* bad = NULL;
    errno = ibv_post_send(datagrams->a.qp, &request, &bad);
    must(errno == 0, "ibv_post_send");
}

void post_datagram_receive(struct datagrams* datagrams, const struct ibv_mr* region, void* local,
                           size_t bytes) {
    struct ibv_sge piece = {.addr = (uintptr_t)local, .length = (uint32_t)bytes, .lkey = region->lkey};
    struct ibv_recv_wr request = {.wr_id = (uintptr_t)local, .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    errno = ibv_post_recv(datagrams->b.qp, &request, &bad);
    must(errno == 0, "ibv_post_recv");
}
