// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues.
#include <algorithm>
#include <memory>
#include <new>

#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

abi::Uverbs& uverbs_of(const Srq& srq) noexcept {
    return context_of(srq.srq.context).uverbs;
}

Srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr) noexcept {
    std::unique_ptr<Srq> srq(new (std::nothrow) Srq{});
    if (srq == nullptr) {
        return fail_with<Srq>(ENOMEM);
    }
    ib_uverbs_create_srq_resp answer{};
    siw_uresp_create_srq shared{};
    if (const int error = make_in_kernel(*srq, pd, srq_context, attr, answer, abi::driver_answer(shared))) {
        return fail_with<Srq>(error);
    }
    if (is_single_threaded(pd)) {
        srq->queue.lock.elide();
    }
    if (const int error = srq->queue.ring.map(uverbs_of(*srq), shared.num_rqe, shared.srq_key)) {
        unmake_in_kernel(*srq);
        return fail_with<Srq>(error);
    }
    attr.max_wr = answer.max_wr;
    attr.max_sge = answer.max_sge;
    srq->queue.max_sge = std::min<std::uint32_t>(answer.max_sge, SIW_MAX_SGE);
    return srq.release();
}

} // namespace

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept {
    Srq* srq = create(pd, attr->srq_context, attr->attr);
    return srq != nullptr ? &srq->srq : nullptr;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept {
    if (const int error = check_extended_request(context, *attr)) {
        return fail_with<ibv_srq>(error);
    }
    Srq* srq = create(attr->pd, attr->srq_context, attr->attr);
    return srq != nullptr ? &srq->srq : nullptr;
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept {
    ib_uverbs_modify_srq command{};
    command.srq_handle = srq->handle;
    command.attr_mask = static_cast<std::uint32_t>(mask);
    command.max_wr = attr->max_wr;
    command.srq_limit = attr->srq_limit;
    return context_of(srq->context).uverbs.invoke(IB_USER_VERBS_CMD_MODIFY_SRQ, command);
}

int destroy_srq(ibv_srq* ibsrq) noexcept {
    Srq& srq = srq_of(ibsrq);
    if (const int error = retire(srq)) {
        return error;
    }
    delete &srq;
    return 0;
}

} // namespace sluice::provider::siw
