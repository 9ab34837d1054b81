// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pairs: made, asked about, and destroyed. The connection manager leads them through their
// states.
#include <algorithm>
#include <memory>
#include <new>

#include "provider/common/verbs.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

struct QpRequest {
    ibv_pd* pd;
    void* qp_context;
    ibv_cq* send_cq;
    ibv_cq* recv_cq;
    ibv_srq* srq;
    ibv_qp_cap* cap;
    ibv_qp_type type;
    int sq_sig_all;
};

abi::Uverbs& uverbs_of(const Qp& qp) noexcept {
    return context_of(qp.qp.context).uverbs;
}

void fill_public_part(Qp& qp, const QpRequest& request) noexcept {
    qp.qp.context = request.pd->context;
    qp.qp.qp_context = request.qp_context;
    qp.qp.pd = request.pd;
    qp.qp.send_cq = request.send_cq;
    qp.qp.recv_cq = request.recv_cq;
    qp.qp.srq = request.srq;
    qp.qp.qp_type = request.type;
    qp.qp.state = IBV_QPS_RESET;
    pthread_mutex_init(&qp.qp.mutex, nullptr);
    pthread_cond_init(&qp.qp.cond, nullptr);
}

int create_in_kernel(Qp& qp, const QpRequest& request, ib_uverbs_create_qp_resp& answer,
                     siw_uresp_create_qp& shared) noexcept {
    ib_uverbs_create_qp command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(&qp.qp);
    command.pd_handle = kernel_domain_of(request.pd).handle;
    command.send_cq_handle = request.send_cq->handle;
    command.recv_cq_handle = request.recv_cq->handle;
    command.srq_handle = request.srq != nullptr ? request.srq->handle : 0;
    command.max_send_wr = request.cap->max_send_wr;
    command.max_recv_wr = request.cap->max_recv_wr;
    command.max_send_sge = request.cap->max_send_sge;
    command.max_recv_sge = request.cap->max_recv_sge;
    command.max_inline_data = request.cap->max_inline_data;
    command.sq_sig_all = request.sq_sig_all != 0 ? 1 : 0;
    command.qp_type = static_cast<std::uint8_t>(request.type);
    command.is_srq = request.srq != nullptr ? 1 : 0;
    return uverbs_of(qp).invoke(IB_USER_VERBS_CMD_CREATE_QP, command, answer, abi::driver_answer(shared));
}

int map_rings(Qp& qp, const siw_uresp_create_qp& shared) noexcept {
    if (shared.num_sqe != 0) {
        if (const int error = qp.send.ring.map(uverbs_of(qp), shared.num_sqe, shared.sq_key)) {
            return error;
        }
    }
    return qp.qp.srq == nullptr && shared.num_rqe != 0
               ? qp.recv.ring.map(uverbs_of(qp), shared.num_rqe, shared.rq_key)
               : 0;
}

int destroy_in_kernel(const Qp& qp, ib_uverbs_destroy_qp_resp& answer) noexcept {
    ib_uverbs_destroy_qp command{};
    command.qp_handle = qp.qp.handle;
    return destroy_result(uverbs_of(qp).invoke(IB_USER_VERBS_CMD_DESTROY_QP, command, answer));
}

abi::SendDoorbell doorbell_of(const Qp& qp) noexcept {
    abi::PostSendBody body{};
    body.response = reinterpret_cast<std::uintptr_t>(&qp.doorbell_answer);
    body.qp_handle = qp.qp.handle;
    body.wqe_size = sizeof(ib_uverbs_send_wr);
    return {IB_USER_VERBS_CMD_POST_SEND, body, sizeof qp.doorbell_answer};
}

Qp* create(const QpRequest& request) noexcept {
    if (request.type != IBV_QPT_RC) {
        return fail_with<Qp>(EOPNOTSUPP);
    }
    if (request.send_cq == nullptr || request.recv_cq == nullptr) {
        return fail_with<Qp>(EINVAL);
    }
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp);
    if (qp == nullptr) {
        return fail_with<Qp>(ENOMEM);
    }
    fill_public_part(*qp, request);
    ib_uverbs_create_qp_resp answer{};
    siw_uresp_create_qp shared{};
    if (const int error = create_in_kernel(*qp, request, answer, shared)) {
        return fail_with<Qp>(error);
    }
    qp->qp.handle = answer.qp_handle;
    qp->qp.qp_num = answer.qpn;
    if (const int error = map_rings(*qp, shared)) {
        ib_uverbs_destroy_qp_resp ignored{};
        (void)destroy_in_kernel(*qp, ignored);
        return fail_with<Qp>(error);
    }
    qp->send.max_sge = std::min<std::uint32_t>(answer.max_send_sge, SIW_MAX_SGE);
    qp->send.signal_all = request.sq_sig_all != 0;
    qp->recv.max_sge = std::min<std::uint32_t>(answer.max_recv_sge, SIW_MAX_SGE);
    qp->doorbell = doorbell_of(*qp);
    if (is_single_threaded(request.pd)) {
        qp->send.lock.elide();
        qp->recv.lock.elide();
    }
    request.cap->max_send_wr = answer.max_send_wr;
    request.cap->max_recv_wr = answer.max_recv_wr;
    request.cap->max_send_sge = answer.max_send_sge;
    request.cap->max_recv_sge = answer.max_recv_sge;
    request.cap->max_inline_data = answer.max_inline_data;
    return qp.release();
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    Qp* qp = create({.pd = pd,
                     .qp_context = attr->qp_context,
                     .send_cq = attr->send_cq,
                     .recv_cq = attr->recv_cq,
                     .srq = attr->srq,
                     .cap = &attr->cap,
                     .type = attr->qp_type,
                     .sq_sig_all = attr->sq_sig_all});
    return qp != nullptr ? &qp->qp : nullptr;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnown =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if ((attr->comp_mask & ~kKnown) != 0 ||
        ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) ||
        (extended && (attr->send_ops_flags & ~kWrOps) != 0)) {
        return fail_with<ibv_qp>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context) {
        return fail_with<ibv_qp>(EINVAL);
    }
    Qp* qp = create({.pd = attr->pd,
                     .qp_context = attr->qp_context,
                     .send_cq = attr->send_cq,
                     .recv_cq = attr->recv_cq,
                     .srq = attr->srq,
                     .cap = &attr->cap,
                     .type = attr->qp_type,
                     .sq_sig_all = attr->sq_sig_all});
    if (qp == nullptr) {
        return nullptr;
    }
    if (extended) {
        set_wr_functions(*qp, attr->send_ops_flags);
    }
    return &qp->qp;
}

int modify_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int mask) noexcept {
    if (const int error = modify_qp_in_kernel(ibqp, *attr, mask)) {
        return error;
    }
    if ((mask & IBV_QP_STATE) != 0) {
        qp_of(ibqp).state.store(attr->qp_state, std::memory_order_relaxed);
    }
    return 0;
}

int query_qp_with_state(ibv_qp* ibqp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) noexcept {
    if (const int error = query_qp(ibqp, attr, mask, init_attr)) {
        return error;
    }
    attr->qp_state = qp_of(ibqp).state.load(std::memory_order_relaxed);
    attr->cur_qp_state = attr->qp_state;
    return 0;
}

int destroy_qp(ibv_qp* ibqp) noexcept {
    Qp& qp = qp_of(ibqp);
    ib_uverbs_destroy_qp_resp answer{};
    if (const int error = destroy_in_kernel(qp, answer)) {
        return error;
    }
    await_events(ibqp->mutex, ibqp->cond, ibqp->events_completed, answer.events_reported);
    delete &qp;
    return 0;
}

} // namespace sluice::provider::siw
