// SPDX-License-Identifier: BSD-3-Clause
//
// What bench_provider measures: posts and polls of one process on an rxe or siw device, with
// whichever provider the environment names.
#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "tests/bench/provider_ends.hpp"

namespace sluice::bench {

inline constexpr int kBatch = 16;
inline constexpr std::uint32_t kBytes = 64;
inline constexpr int kDepth = 64;

// Ends the process if CONTEXT isn't driven by what the environment names: libibverbs goes on with another
// provider where it can't load one.
inline void need_named_provider(const ibv_context& context) {
    Dl_info info{};
    const bool is_ours = dladdr(reinterpret_cast<void*>(context.ops.poll_cq), &info) != 0 &&
                         std::string_view(info.dli_fname).find("libsluice") != std::string_view::npos;
    if (is_ours != (std::getenv("RDMAV_DRIVERS") != nullptr)) {
        errno = ENODEV;
        die(is_ours ? "be driven by the stock provider" : "be driven by our provider");
    }
}

// Two connected queue pairs; what one sends, the other receives.
class Loop {
  public:
    Loop(const std::string& device, bool promise_one_thread)
        : ends_(open_ends(device)), context_(ends_->context()), pd_(need(ibv_alloc_pd(context_), "PD")),
          mr_(need(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE), "MR")) {
        need_named_provider(*context_);
        if (promise_one_thread) {
            ibv_td_init_attr td_attr{};
            ibv_parent_domain_init_attr attr{};
            attr.pd = pd_;
            attr.td = need(ibv_alloc_td(context_, &td_attr), "thread domain");
            domain_ = need(ibv_alloc_parent_domain(context_, &attr), "parent domain");
            ibv_cq_init_attr_ex cq_attr{};
            cq_attr.cqe = kDepth;
            cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
            send_cq_ = ibv_cq_ex_to_cq(need(ibv_create_cq_ex(context_, &cq_attr), "single-threaded CQ"));
        } else {
            domain_ = pd_;
            send_cq_ = need(ibv_create_cq(context_, kDepth, nullptr, nullptr, 0), "CQ");
        }
        recv_cq_ = need(ibv_create_cq(context_, kDepth, nullptr, nullptr, 0), "CQ");
        ibv_qp_init_attr attr{};
        attr.send_cq = send_cq_;
        attr.recv_cq = recv_cq_;
        attr.cap = {kDepth, kDepth, 1, 1, 0};
        attr.qp_type = IBV_QPT_RC;
        qp_ = ends_->connect(domain_, attr);
        for (int i = 0; i < kBatch; ++i) {
            sge_ = {reinterpret_cast<std::uintptr_t>(buffer_.data()), kBytes, mr_->lkey};
            wr_[i] = {};
            wr_[i].sg_list = &sge_;
            wr_[i].num_sge = 1;
            wr_[i].opcode = IBV_WR_SEND;
            wr_[i].send_flags = IBV_SEND_SIGNALED;
        }
    }

    void give_receives() {
        ibv_recv_wr wr{};
        wr.sg_list = &sge_;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        for (int i = 0; i < kBatch; ++i) {
            need_zero(ibv_post_recv(qp_[1], &wr, &bad), "post a receive");
        }
    }
    void drain_receives() { drain(recv_cq_); }
    void drain_sends() { drain(send_cq_); }
    // Without looking at the queue: a receive is completed before its send is.
    void await_sends() {
        drain_receives();
        usleep(20000);
    }

    // What is measured. Not inlined, because callgrind finds them by their names.
    [[gnu::noinline]] void measure_post_one() {
        wr_[0].next = nullptr;
        ibv_send_wr* bad = nullptr;
        for (int i = 0; i < kBatch; ++i) {
            need_zero(ibv_post_send(qp_[0], wr_.data(), &bad), "post a send");
        }
    }
    [[gnu::noinline]] void measure_post_chain() {
        for (int i = 0; i < kBatch; ++i) {
            wr_[i].next = i + 1 < kBatch ? &wr_[i + 1] : nullptr;
        }
        ibv_send_wr* bad = nullptr;
        need_zero(ibv_post_send(qp_[0], wr_.data(), &bad), "post a chain");
    }
    bool can_build() const { return ends_->can_build(); }
    // As many as a chain, each by calls of its own, and one doorbell.
    [[gnu::noinline]] void measure_post_built() {
        ibv_qp_ex* const qp = ibv_qp_to_qp_ex(qp_[0]);
        ibv_wr_start(qp);
        for (int i = 0; i < kBatch; ++i) {
            qp->wr_id = static_cast<std::uint64_t>(i);
            qp->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_send(qp);
            ibv_wr_set_sge(qp, sge_.lkey, sge_.addr, sge_.length);
        }
        need_zero(ibv_wr_complete(qp), "post what was built");
    }
    [[gnu::noinline]] void measure_poll_one() {
        ibv_wc wc{};
        for (int i = 0; i < kBatch; ++i) {
            if (ibv_poll_cq(send_cq_, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
                die("poll one");
            }
        }
    }
    [[gnu::noinline]] void measure_poll_batch() {
        if (ibv_poll_cq(send_cq_, kBatch, wc_.data()) != kBatch) {
            die("poll sixteen");
        }
    }
    [[gnu::noinline]] void measure_poll_empty() {
        for (int i = 0; i < kBatch; ++i) {
            if (ibv_poll_cq(send_cq_, 1, wc_.data()) != 0) {
                die("poll nothing");
            }
        }
    }

  private:
    static void drain(ibv_cq* cq) {
        std::array<ibv_wc, kBatch> wc{};
        for (int taken = 0; taken < kBatch;) {
            taken += std::max(0, ibv_poll_cq(cq, kBatch, wc.data()));
        }
    }

    std::unique_ptr<Ends> ends_;
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_pd* domain_ = nullptr;
    ibv_mr* mr_ = nullptr;
    ibv_cq* send_cq_ = nullptr;
    ibv_cq* recv_cq_ = nullptr;
    std::array<ibv_qp*, 2> qp_{};
    ibv_sge sge_{};
    std::array<ibv_send_wr, kBatch> wr_{};
    std::array<ibv_wc, kBatch> wc_{};
    std::array<char, 4096> buffer_{};
};

} // namespace sluice::bench
