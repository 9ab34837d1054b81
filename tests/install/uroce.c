/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of somebody else's, in plain C: opens uroce0, connects two queue pairs, writes from one
 * region to another and reads the result.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <sluice/sluice.h>

static int to_ready(struct ibv_qp* qp, const struct ibv_qp* peer, const union ibv_gid* gid) {
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        return -1;
    }
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = *gid;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
        return -1;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void) {
    static const char text[] = "written without a kernel";
    char from[64] = "";
    char to[64] = "";
    struct ibv_context* context = sluice_open_uroce("uroce0");
    struct ibv_pd* pd = context != NULL ? ibv_alloc_pd(context) : NULL;
    struct ibv_cq* cq = context != NULL ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
    struct ibv_mr* from_mr = pd != NULL ? ibv_reg_mr(pd, from, sizeof from, 0) : NULL;
    struct ibv_mr* to_mr =
        pd != NULL ? ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
    struct ibv_qp_init_attr init;
    struct ibv_qp* qp[2];
    union ibv_gid gid;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct ibv_send_wr* bad = NULL;
    struct ibv_wc wc;
    int polled = 0;

    if (cq == NULL || from_mr == NULL || to_mr == NULL || ibv_query_gid(context, 1, 0, &gid) != 0) {
        perror("open");
        return 1;
    }
    memset(&init, 0, sizeof init);
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = 8;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp[0] = ibv_create_qp(pd, &init);
    qp[1] = ibv_create_qp(pd, &init);
    if (qp[0] == NULL || qp[1] == NULL || to_ready(qp[0], qp[1], &gid) != 0 ||
        to_ready(qp[1], qp[0], &gid) != 0) {
        perror("connect");
        return 1;
    }
    memcpy(from, text, sizeof text);
    sge.addr = (uintptr_t)from;
    sge.length = sizeof text;
    sge.lkey = from_mr->lkey;
    memset(&wr, 0, sizeof wr);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = (uintptr_t)to;
    wr.wr.rdma.rkey = to_mr->rkey;
    if (ibv_post_send(qp[0], &wr, &bad) != 0) {
        perror("post");
        return 1;
    }
    while (polled == 0) {
        polled = ibv_poll_cq(cq, 1, &wc);
    }
    if (polled != 1 || wc.status != IBV_WC_SUCCESS || memcmp(to, text, sizeof text) != 0) {
        fprintf(stderr, "the write failed: %d %s\n", polled, ibv_wc_status_str(wc.status));
        return 1;
    }
    if (ibv_destroy_qp(qp[0]) != 0 || ibv_destroy_qp(qp[1]) != 0 || ibv_destroy_cq(cq) != 0 ||
        ibv_dereg_mr(from_mr) != 0 || ibv_dereg_mr(to_mr) != 0 || ibv_dealloc_pd(pd) != 0 ||
        ibv_close_device(context) != 0) {
        perror("close");
        return 1;
    }
    puts(to);
    return 0;
}
