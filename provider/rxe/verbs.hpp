// SPDX-License-Identifier: BSD-3-Clause
//
// The verbs of rxe that touch its rings, in the signatures of libibverbs' provider table.
#pragma once

#include "provider/rxe/objects.hpp"

namespace sluice::provider::rxe {

// cq.cpp
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept;
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int resize_cq(ibv_cq* cq, int cqe) noexcept;
int destroy_cq(ibv_cq* cq) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;

// poll.cpp
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept;
void set_poll_functions(Cq& cq) noexcept;
// Forgets the completions of a queue pair that was reset. Messages that came through a shared
// receive queue stay: their places there are used up. Takes the CQ's lock.
void discard_completions(Cq& cq, const Qp& qp) noexcept;

// qp.cpp
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept;
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept;
int destroy_qp(ibv_qp* qp) noexcept;

// post_send.cpp
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;
// Tells the kernel that there is work; nobody holds the queue's lock.
int ring_doorbell(Qp& qp) noexcept;
// Writes a memory window's request behind the head of WQE. 0 or an errno; then WQE is as it was.
int fill_bind(rxe_send_wqe& wqe, const ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info) noexcept;

// post_recv.cpp
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;

// wr_api.cpp
// The flags of enum ibv_qp_create_send_ops_flags that OPS (op_bit()) supports.
std::uint64_t supported_wr_ops(std::uint32_t ops) noexcept;
// Makes the queue pair an extended one, for these operations.
void set_wr_functions(Qp& qp, std::uint64_t send_ops_flags) noexcept;

// srq.cpp
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept;
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept;
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept;
int destroy_srq(ibv_srq* srq) noexcept;

// ah.cpp
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept;
int destroy_ah(ibv_ah* ah) noexcept;

} // namespace sluice::provider::rxe
