/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program for completion counters, which libibverbs has since rdma-core 65: on the first device, it waits
 * for its writes by a counter alone. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWrites = 10 };

static void need(int ok, const char* what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

/* Index 0 of the device's own GIDs, and the queue pair itself as its peer. */
static void connect_to_itself(struct ibv_qp* qp) {
    struct ibv_qp_attr attr = {0};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 1;
    need(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "GID");
    need(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    need(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "RTS");
}

static void write_unsignaled(struct ibv_qp* qp, struct ibv_mr* mr) {
    struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey};
    struct ibv_send_wr wr = {0};
    struct ibv_send_wr* bad = NULL;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + 8;
    wr.wr.rdma.rkey = mr->rkey;
    need(ibv_post_send(qp, &wr, &bad) == 0, "post");
}

int main(void) {
    static char buffer[16];
    struct ibv_device** list = ibv_get_device_list(NULL);
    need(list != NULL && list[0] != NULL, "device");
    struct ibv_context* context = ibv_open_device(list[0]);
    need(context != NULL, "open");
    ibv_free_device_list(list);

    struct ibv_comp_cntr_caps caps = {0};
    need(ibv_query_comp_cntr_caps(context, &caps) == 0, "capabilities");
    need((caps.supported_qp_attach_ops & IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE) != 0, "writes are counted");
    struct ibv_comp_cntr_init_attr init = {0};
    struct ibv_comp_cntr* counter = ibv_create_comp_cntr(context, &init);
    need(counter != NULL, "counter");

    struct ibv_pd* pd = ibv_alloc_pd(context);
    need(pd != NULL, "PD");
    struct ibv_mr* mr =
        ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    need(mr != NULL, "MR");
    struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    need(cq != NULL, "CQ");
    struct ibv_qp_init_attr request = {0};
    request.send_cq = request.recv_cq = cq;
    request.cap.max_send_wr = request.cap.max_recv_wr = 16;
    request.cap.max_send_sge = request.cap.max_recv_sge = 1;
    request.qp_type = IBV_QPT_RC;
    struct ibv_qp* qp = ibv_create_qp(pd, &request);
    need(qp != NULL, "QP");
    struct ibv_qp_attach_comp_cntr_attr attach = {0};
    attach.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
    need(ibv_qp_attach_comp_cntr(qp, counter, &attach) == 0, "attach");
    connect_to_itself(qp);

    uint64_t done = 0;
    for (int i = 0; i < kWrites; ++i) {
        write_unsignaled(qp, mr);
    }
    while (done < kWrites) {
        need(ibv_read_comp_cntr(counter, &done) == 0, "read");
    }
    need(ibv_destroy_comp_cntr(counter) == EBUSY, "a counter in use stays");
    need(ibv_destroy_qp(qp) == 0 && ibv_destroy_comp_cntr(counter) == 0, "destroy");
    need(ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 &&
             ibv_close_device(context) == 0,
         "close");
    printf("counted %d writes\n", (int)done);
    return 0;
}
