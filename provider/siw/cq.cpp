// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues: made, armed and destroyed. Polling is in poll.cpp.
#include <memory>
#include <new>

#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

abi::Uverbs& uverbs_of(const ibv_cq_ex& cq) noexcept {
    return context_of(cq.context).uverbs;
}

struct CqRequest {
    std::uint32_t cqe;
    std::uint32_t vector;
    ibv_comp_channel* channel;
    void* cq_context;
    bool single_threaded;
};

int destroy_in_kernel(const Cq& cq, ib_uverbs_destroy_cq_resp& answer) noexcept {
    ib_uverbs_destroy_cq command{};
    command.cq_handle = cq.handle;
    return destroy_result(uverbs_of(cq).invoke(IB_USER_VERBS_CMD_DESTROY_CQ, command, answer));
}

Cq* create(ibv_context* context, const CqRequest& request) noexcept {
    std::unique_ptr<Cq> cq(new (std::nothrow) Cq{});
    if (cq == nullptr) {
        return fail_with<Cq>(ENOMEM);
    }
    cq->context = context;
    cq->channel = request.channel;
    cq->cq_context = request.cq_context;
    pthread_mutex_init(&cq->mutex, nullptr);
    pthread_cond_init(&cq->cond, nullptr);
    if (request.single_threaded) {
        cq->lock.elide();
    }
    ib_uverbs_ex_create_cq command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(ibv_cq_ex_to_cq(cq.get()));
    command.cqe = request.cqe;
    command.comp_vector = request.vector;
    command.comp_channel = request.channel != nullptr ? request.channel->fd : -1;
    ib_uverbs_ex_create_cq_resp answer{};
    siw_uresp_create_cq shared{};
    if (const int error =
            uverbs_of(*cq).invoke(IB_USER_VERBS_EX_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, command,
                                  answer, abi::driver_answer(shared))) {
        return fail_with<Cq>(error);
    }
    cq->handle = answer.base.cq_handle;
    cq->cqe = static_cast<int>(answer.base.cqe);
    if (const int error = cq->ring.map(uverbs_of(*cq), shared.num_cqe, shared.cq_key, sizeof(siw_cq_ctrl))) {
        ib_uverbs_destroy_cq_resp ignored{};
        (void)destroy_in_kernel(*cq, ignored);
        return fail_with<Cq>(error);
    }
    cq->head.store(&cq->ring.at(0), std::memory_order_relaxed);
    return cq.release();
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept {
    Cq* cq = create(context, {.cqe = static_cast<std::uint32_t>(cqe),
                              .vector = static_cast<std::uint32_t>(vector),
                              .channel = channel,
                              .cq_context = nullptr,
                              .single_threaded = false});
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    // Immediate data and what a LID says don't exist in iWARP; asked for, they read as zero.
    const std::uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    ibv_pd* domain = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attr->parent_domain : nullptr;
    if ((attr->comp_mask & ~kKnownMask) != 0 ||
        (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0 ||
        (attr->wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
        return fail_with<ibv_cq_ex>(EOPNOTSUPP);
    }
    if (domain != nullptr && domain_of(domain).parent == nullptr) {
        return fail_with<ibv_cq_ex>(EINVAL);
    }
    Cq* cq = create(context, {.cqe = attr->cqe,
                              .vector = attr->comp_vector,
                              .channel = attr->channel,
                              .cq_context = attr->cq_context,
                              .single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0 ||
                                                 is_single_threaded(domain)});
    if (cq != nullptr) {
        set_poll_functions(*cq);
    }
    return cq;
}

int destroy_cq(ibv_cq* ibcq) noexcept {
    Cq& cq = cq_of(ibcq);
    ib_uverbs_destroy_cq_resp answer{};
    if (const int error = destroy_in_kernel(cq, answer)) {
        return error;
    }
    await_events(cq.mutex, cq.cond, cq.comp_events_completed, answer.comp_events_reported);
    await_events(cq.mutex, cq.cond, cq.async_events_completed, answer.async_events_reported);
    delete &cq;
    return 0;
}

// The kernel looks at a word behind the ring when it completes something: no system call. The
// store must be seen before the program polls for the last time and goes to sleep.
int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
    const std::uint32_t wanted =
        solicited_only != 0 ? SIW_NOTIFY_SOLICITED : SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION;
    __atomic_store_n(&cq_of(ibcq).control().flags, wanted, __ATOMIC_SEQ_CST);
    return 0;
}

} // namespace sluice::provider::siw
