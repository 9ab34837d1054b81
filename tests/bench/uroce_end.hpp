// SPDX-License-Identifier: BSD-3-Clause
//
// One end of a connection over uroce, through libibverbs' public calls, as programs have it; whatever
// fails ends the benchmark.
#pragma once

#include <infiniband/verbs.h>
#include <sluice/sluice.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/bench/failure.hpp"
#include "tests/bench/harness.hpp"
#include "tests/loopback.hpp"

namespace sluice::bench {

using sluice::test::own_address;

class Context {
  public:
    explicit Context(const std::string& address)
        : context_(need(sluice_open_uroce(address.c_str()), address.c_str())) {}
    ~Context() { ibv_close_device(context_); }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ibv_context* get() const { return context_; }

  private:
    ibv_context* context_;
};

// What the other end must know.
struct Card {
    ibv_gid gid;
    std::uint64_t address;
    std::uint32_t qpn;
    std::uint32_t rkey;
};

class End {
  public:
    End(const Context& context, const Buffer& memory, std::uint32_t depth = 64)
        : memory_(memory), pd_(need(ibv_alloc_pd(context.get()), "ibv_alloc_pd")),
          cq_(need(ibv_create_cq(context.get(), static_cast<int>(depth) + 1, nullptr, nullptr, 0),
                   "ibv_create_cq")),
          mr_(need(ibv_reg_mr(pd_, memory.data(), memory.size(),
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
                   "ibv_reg_mr")) {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq_;
        init.qp_type = IBV_QPT_RC;
        init.cap = {depth, depth, 1, 1, 0};
        qp_ = need(ibv_create_qp(pd_, &init), "ibv_create_qp");
        card_ = {.gid = {}, .address = memory.address(), .qpn = qp_->qp_num, .rkey = mr_->rkey};
        need_zero(ibv_query_gid(context.get(), 1, 0, &card_.gid), "ibv_query_gid");
    }
    ~End() {
        ibv_destroy_qp(qp_);
        ibv_dereg_mr(mr_);
        ibv_destroy_cq(cq_);
        ibv_dealloc_pd(pd_);
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    const Card& card() const { return card_; }
    ibv_cq* cq() const { return cq_; }
    ibv_pd* pd() const { return pd_; }

    void connect(const Card& peer) {
        peer_ = peer;
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        need_zero(
            ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_4096;
        attr.dest_qp_num = peer.qpn;
        attr.max_dest_rd_atomic = 16;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = peer.gid;
        need_zero(ibv_modify_qp(qp_, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                  "RTR");
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 16;
        need_zero(ibv_modify_qp(qp_, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                  "RTS");
    }

    // A signaled Write of the first BYTES to the peer's AT-th byte.
    void post_write(std::uint32_t bytes, std::uint64_t at = 0) {
        ibv_sge piece{memory_.address(), bytes, mr_->lkey};
        ibv_send_wr request{};
        request.opcode = IBV_WR_RDMA_WRITE;
        request.send_flags = IBV_SEND_SIGNALED;
        request.sg_list = &piece;
        request.num_sge = 1;
        request.wr.rdma.remote_addr = peer_.address + at;
        request.wr.rdma.rkey = peer_.rkey;
        ibv_send_wr* bad = nullptr;
        need_zero(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
    }

    // COUNT of them by one call, up to 64, the last of which is signaled.
    void post_writes(std::uint32_t bytes, std::uint32_t count) {
        ibv_sge piece{memory_.address(), bytes, mr_->lkey};
        ibv_send_wr requests[64] = {};
        for (std::uint32_t i = 0; i < count; ++i) {
            requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
            requests[i].opcode = IBV_WR_RDMA_WRITE;
            requests[i].send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
            requests[i].sg_list = &piece;
            requests[i].num_sge = 1;
            requests[i].wr.rdma.remote_addr = peer_.address;
            requests[i].wr.rdma.rkey = peer_.rkey;
        }
        ibv_send_wr* bad = nullptr;
        need_zero(ibv_post_send(qp_, requests, &bad), "ibv_post_send");
    }

    // A signaled Send of the first BYTES.
    void post_send(std::uint32_t bytes) {
        ibv_sge piece{memory_.address(), bytes, mr_->lkey};
        ibv_send_wr request{};
        request.opcode = IBV_WR_SEND;
        request.send_flags = IBV_SEND_SIGNALED;
        request.sg_list = &piece;
        request.num_sge = 1;
        ibv_send_wr* bad = nullptr;
        need_zero(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
    }

    void post_receive(std::uint32_t bytes) {
        ibv_sge piece{memory_.address(), bytes, mr_->lkey};
        ibv_recv_wr request{};
        request.sg_list = &piece;
        request.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        need_zero(ibv_post_recv(qp_, &request, &bad), "ibv_post_recv");
    }

    // How many have completed, up to COUNT.
    int poll(int count = 1) {
        ibv_wc completions[16];
        const int n = ibv_poll_cq(cq_, std::min(count, 16), completions);
        for (int i = 0; i < n; ++i) {
            if (completions[i].status != IBV_WC_SUCCESS) {
                errno = EIO;
                die(ibv_wc_status_str(completions[i].status));
            }
        }
        return n;
    }

  private:
    const Buffer& memory_;
    ibv_pd* pd_;
    ibv_cq* cq_;
    ibv_mr* mr_;
    ibv_qp* qp_ = nullptr;
    Card card_{};
    Card peer_{};
};

// Two ends of this process.
inline void connect(End& a, End& b) {
    a.connect(b.card());
    b.connect(a.card());
}

} // namespace sluice::bench
