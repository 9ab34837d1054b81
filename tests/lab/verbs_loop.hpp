// SPDX-License-Identifier: BSD-3-Clause
//
// What the lab's verbs programs share: a device, and two of its queue pairs connected to each other.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::lab {

[[noreturn]] inline void die(const char* what) {
    std::printf("FAILED: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

inline void require(bool holds, const char* what) {
    if (!holds) {
        die(what);
    }
}

inline constexpr unsigned kDepth = 64;
inline constexpr std::size_t kBufferBytes = 65536;

// Two queue pairs of one process, connected to each other.
struct Loop {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_mr* mr = nullptr;
    ibv_cq* cq = nullptr;
    std::array<ibv_qp*, 2> qp{};
    alignas(4096) std::array<char, kBufferBytes> buffer{};
};

inline Loop& loop() {
    static Loop the_loop;
    return the_loop;
}

inline int gid_index = 0;

inline ibv_context* open_device(const char* name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; i < count; ++i) {
        if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) {
            context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    require(context != nullptr, "open the device");
    return context;
}

inline ibv_qp_init_attr qp_request(ibv_cq* cq, ibv_qp_type type) {
    ibv_qp_init_attr attr{};
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.cap.max_send_wr = kDepth;
    attr.cap.max_recv_wr = kDepth;
    attr.cap.max_send_sge = 2;
    attr.cap.max_recv_sge = 2;
    attr.cap.max_inline_data = 64;
    attr.qp_type = type;
    return attr;
}

inline void to_init(ibv_qp* qp, int extra_access = 0) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                 IBV_ACCESS_REMOTE_ATOMIC | extra_access);
    require(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
                0,
            "modify to INIT");
}

inline void connect(ibv_qp* qp, std::uint32_t to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 1;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    require(ibv_query_gid(qp->context, 1, gid_index, &attr.ah_attr.grh.dgid) == 0, "query the GID");
    require(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
            "modify to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 6;
    attr.rnr_retry = 6;
    attr.max_rd_atomic = 4;
    require(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
            "modify to RTS");
}

template<typename MakeQp>
Loop& set_up(const char* device, int extra_access, MakeQp make_qp) {
    Loop& it = loop();
    it.context = open_device(device);
    it.pd = ibv_alloc_pd(it.context);
    it.mr = ibv_reg_mr(it.pd, it.buffer.data(), it.buffer.size(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC | extra_access);
    require(it.mr != nullptr, "register memory");
    it.cq = ibv_create_cq(it.context, 2 * kDepth, nullptr, nullptr, 0);
    require(it.cq != nullptr, "create a CQ");
    for (ibv_qp*& qp : it.qp) {
        qp = make_qp(it);
        require(qp != nullptr, "create a QP");
        to_init(qp, extra_access);
    }
    connect(it.qp[0], it.qp[1]->qp_num);
    connect(it.qp[1], it.qp[0]->qp_num);
    return it;
}

inline Loop& set_up(const char* device) {
    return set_up(device, 0, [](Loop& it) {
        ibv_qp_init_attr attr = qp_request(it.cq, IBV_QPT_RC);
        return ibv_create_qp(it.pd, &attr);
    });
}

inline void tear_down(Loop& it) {
    for (ibv_qp* qp : it.qp) {
        require(ibv_destroy_qp(qp) == 0, "destroy a QP");
    }
    require(ibv_destroy_cq(it.cq) == 0, "destroy the CQ");
    require(ibv_dereg_mr(it.mr) == 0, "deregister memory");
    require(ibv_dealloc_pd(it.pd) == 0, "deallocate the PD");
    require(ibv_close_device(it.context) == 0, "close the device");
}

inline int post_write(Loop& it, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge sge{};
    sge.addr = reinterpret_cast<std::uintptr_t>(it.buffer.data());
    sge.length = 64;
    sge.lkey = it.mr->lkey;
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = sge.addr + 4096;
    wr.wr.rdma.rkey = it.mr->rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(it.qp[0], &wr, &bad);
}

inline ibv_wc await_completion(ibv_cq* cq) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
        require(std::chrono::steady_clock::now() < end, "a completion within 20 s");
    }
    return wc;
}

} // namespace sluice::lab
