// SPDX-License-Identifier: BSD-3-Clause
//
// What bench_provider measures of datagrams: a queue pair of rxe that sends to itself.
#pragma once

#include "tests/bench/provider_loop.hpp"

namespace sluice::bench {

class Datagrams {
  public:
    explicit Datagrams(const std::string& device)
        : ends_(open_ends(device)), pd_(need(ibv_alloc_pd(ends_->context()), "PD")),
          mr_(need(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE), "MR")),
          send_cq_(need(ibv_create_cq(ends_->context(), kDepth, nullptr, nullptr, 0), "CQ")),
          channel_(need(ibv_create_comp_channel(ends_->context()), "channel")),
          recv_cq_(need(ibv_create_cq(ends_->context(), kDepth, nullptr, channel_, 0), "CQ")) {
        need_named_provider(*ends_->context());
        ibv_qp_init_attr attr{};
        attr.send_cq = send_cq_;
        attr.recv_cq = recv_cq_;
        attr.cap = {kDepth, kDepth, 1, 1, 0};
        attr.qp_type = IBV_QPT_UD;
        qp_ = need(ibv_create_qp(pd_, &attr), "UD QP");
        lead_to_send();
    }

    // Sixteen datagrams, which wait in the queue when this returns: they arrive in their order, and the last
    // one raises an event.
    void give() {
        constexpr std::uint32_t kHeader = 40;
        need_zero(ibv_req_notify_cq(recv_cq_, 1), "arm the queue");
        const auto address = reinterpret_cast<std::uintptr_t>(buffer_.data());
        for (int i = 0; i < kBatch; ++i) {
            ibv_sge to{.addr = address, .length = kHeader + kBytes, .lkey = mr_->lkey};
            ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = &to, .num_sge = 1};
            ibv_recv_wr* bad_receive = nullptr;
            need_zero(ibv_post_recv(qp_, &receive, &bad_receive), "post a receive");
            ibv_sge from{.addr = address + kHeader + kBytes, .length = kBytes, .lkey = mr_->lkey};
            ibv_send_wr send{};
            send.sg_list = &from;
            send.num_sge = 1;
            send.opcode = IBV_WR_SEND;
            send.send_flags = IBV_SEND_SIGNALED | (i + 1 == kBatch ? IBV_SEND_SOLICITED : 0);
            send.wr.ud = {.ah = ah_, .remote_qpn = qp_->qp_num, .remote_qkey = kKey};
            ibv_send_wr* bad_send = nullptr;
            need_zero(ibv_post_send(qp_, &send, &bad_send), "post a send");
        }
        for (int taken = 0; taken < kBatch;) {
            taken += std::max(0, ibv_poll_cq(send_cq_, kBatch, wc_.data()));
        }
        ibv_cq* cq = nullptr;
        void* ignored = nullptr;
        need_zero(ibv_get_cq_event(channel_, &cq, &ignored), "await the last one");
        ibv_ack_cq_events(cq, 1);
    }
    [[gnu::noinline]] void measure_poll_datagrams() {
        if (ibv_poll_cq(recv_cq_, kBatch, wc_.data()) != kBatch) {
            die("poll sixteen datagrams");
        }
    }

  private:
    static constexpr std::uint32_t kKey = 0x11111111;

    void lead_to_send() {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qkey = kKey;
        need_zero(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                  "INIT");
        attr.qp_state = IBV_QPS_RTR;
        need_zero(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), "RTR");
        attr.qp_state = IBV_QPS_RTS;
        need_zero(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
        ibv_ah_attr to{};
        to.is_global = 1;
        to.port_num = 1;
        to.grh.hop_limit = 1;
        to.grh.sgid_index = 1;
        need_zero(ibv_query_gid(qp_->context, 1, 1, &to.grh.dgid), "GID");
        ah_ = need(ibv_create_ah(pd_, &to), "address handle");
    }

    std::array<char, 4096> buffer_{};
    std::array<ibv_wc, kBatch> wc_{};
    std::unique_ptr<Ends> ends_;
    ibv_pd* pd_ = nullptr;
    ibv_mr* mr_ = nullptr;
    ibv_cq* send_cq_ = nullptr;
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* recv_cq_ = nullptr;
    ibv_qp* qp_ = nullptr;
    ibv_ah* ah_ = nullptr;
};

} // namespace sluice::bench
