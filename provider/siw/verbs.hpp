// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs of siw that are not just commands, in the signatures of libibverbs' provider table.
#pragma once

#include "provider/siw/objects.hpp"

namespace sluice::provider::siw {

// cq.cpp
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept;
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int destroy_cq(ibv_cq* cq) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;

// poll.cpp
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept;
void set_poll_functions(Cq& cq) noexcept;

// qp.cpp
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept;
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept;
int query_qp_with_state(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) noexcept;
int destroy_qp(ibv_qp* qp) noexcept;

// post_send.cpp
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
// Makes the kernel look at the elements from ring step FIRST to the next one to be filled, which have
// been handed over. TAKEN tells how many of them it has for good: on an error, the others are taken back.
int make_seen(Qp& qp, std::uint32_t first, std::uint32_t& taken) noexcept;
// An element's flags for those of a request, which are known ones.
unsigned element_flags(const SendQueue& queue, unsigned send_flags) noexcept;
constexpr std::uint32_t kMaxInline = SIW_MAX_INLINE;

// post_recv.cpp
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;

// wr_api.cpp
constexpr std::uint64_t kWrOps =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV;
void set_wr_functions(Qp& qp, std::uint64_t send_ops_flags) noexcept;

// srq.cpp
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept;
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept;
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept;
int destroy_srq(ibv_srq* srq) noexcept;

// context.cpp
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t len_bytes, std::uint64_t iova, int access) noexcept;
verbs_context* open(ibv_device* device, int cmd_fd, void* private_data) noexcept;
verbs_context* import(ibv_device* device, int cmd_fd) noexcept;

} // namespace sluice::provider::siw
