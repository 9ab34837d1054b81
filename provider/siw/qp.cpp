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

abi::Uverbs& uverbs_of(const Qp& qp) noexcept {
    return context_of(qp.qp.context).uverbs;
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

Qp* create(const QpRequest& request) noexcept {
    if (request.type != IBV_QPT_RC) {
        return fail_with<Qp>(EOPNOTSUPP);
    }
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp);
    if (qp == nullptr) {
        return fail_with<Qp>(ENOMEM);
    }
    ib_uverbs_create_qp_resp answer{};
    siw_uresp_create_qp shared{};
    if (const int error = make_in_kernel(*qp, request, answer, abi::driver_answer(shared))) {
        return fail_with<Qp>(error);
    }
    if (const int error = map_rings(*qp, shared)) {
        unmake_in_kernel(*qp);
        return fail_with<Qp>(error);
    }
    qp->send.max_sge = std::min<std::uint32_t>(answer.max_send_sge, SIW_MAX_SGE);
    qp->send.signal_all = request.sq_sig_all != 0 ? unsigned{SIW_WQE_SIGNALLED} : 0U;
    qp->recv.max_sge = std::min<std::uint32_t>(answer.max_recv_sge, SIW_MAX_SGE);
    if (is_single_threaded(request.pd)) {
        qp->send.lock.elide();
        qp->recv.lock.elide();
    }
    announce(*qp, request, answer);
    return qp.release();
}

} // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    Qp* qp = create(qp_request(pd, *attr));
    return qp != nullptr ? &qp->qp : nullptr;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
    if (const int error = check_extended_request(context, *attr, kWrOps)) {
        return fail_with<ibv_qp>(error);
    }
    Qp* qp = create(qp_request(attr->pd, *attr));
    if (qp == nullptr) {
        return nullptr;
    }
    if (wants_wr_functions(*attr)) {
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
    if (const int error = retire(qp)) {
        return error;
    }
    delete &qp;
    return 0;
}

} // namespace sluice::provider::siw
