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

int destroy_in_kernel(const Srq& srq, ib_uverbs_destroy_srq_resp& answer) noexcept {
    ib_uverbs_destroy_srq command{};
    command.srq_handle = srq.srq.handle;
    return destroy_result(uverbs_of(srq).invoke(IB_USER_VERBS_CMD_DESTROY_SRQ, command, answer));
}

Srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr) noexcept {
    std::unique_ptr<Srq> srq(new (std::nothrow) Srq{});
    if (srq == nullptr) {
        return fail_with<Srq>(ENOMEM);
    }
    srq->srq.context = pd->context;
    srq->srq.srq_context = srq_context;
    srq->srq.pd = pd;
    pthread_mutex_init(&srq->srq.mutex, nullptr);
    pthread_cond_init(&srq->srq.cond, nullptr);
    srq->srq_type = IBV_SRQT_BASIC;
    if (is_single_threaded(pd)) {
        srq->queue.lock.elide();
    }
    ib_uverbs_create_srq command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(&srq->srq);
    command.pd_handle = kernel_domain_of(pd).handle;
    command.max_wr = attr.max_wr;
    command.max_sge = attr.max_sge;
    command.srq_limit = attr.srq_limit;
    ib_uverbs_create_srq_resp answer{};
    siw_uresp_create_srq shared{};
    if (const int error = uverbs_of(*srq).invoke(IB_USER_VERBS_CMD_CREATE_SRQ, command, answer,
                                                 abi::driver_answer(shared))) {
        return fail_with<Srq>(error);
    }
    srq->srq.handle = answer.srq_handle;
    if (const int error = srq->queue.ring.map(uverbs_of(*srq), shared.num_rqe, shared.srq_key)) {
        ib_uverbs_destroy_srq_resp ignored{};
        (void)destroy_in_kernel(*srq, ignored);
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
    constexpr std::uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    if ((attr->comp_mask & ~kKnown) != 0 ||
        ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC)) {
        return fail_with<ibv_srq>(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr ||
        attr->pd->context != context) {
        return fail_with<ibv_srq>(EINVAL);
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
    ib_uverbs_destroy_srq_resp answer{};
    if (const int error = destroy_in_kernel(srq, answer)) {
        return error;
    }
    await_events(ibsrq->mutex, ibsrq->cond, ibsrq->events_completed, answer.events_reported);
    delete &srq;
    return 0;
}

} // namespace sluice::provider::siw
