// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues: made, armed and destroyed. Polling is in poll.cpp.
#include <memory>
#include <new>

#include "provider/common/look_after.hpp"
#include "provider/siw/verbs.hpp"

namespace sluice::provider::siw {

namespace {

abi::Uverbs& uverbs_of(const ibv_cq_ex& cq) noexcept {
    return context_of(cq.context).uverbs;
}

Cq* create(ibv_context* context, const CqRequest& request) noexcept {
    std::unique_ptr<Cq> cq(new (std::nothrow) Cq{});
    if (cq == nullptr) {
        return fail_with<Cq>(ENOMEM);
    }
    siw_uresp_create_cq shared{};
    if (const int error = make_in_kernel(*cq, context, request, abi::driver_answer(shared))) {
        return fail_with<Cq>(error);
    }
    if (const int error = cq->ring.map(uverbs_of(*cq), shared.num_cqe, shared.cq_key, sizeof(siw_cq_ctrl))) {
        unmake_in_kernel(*cq);
        return fail_with<Cq>(error);
    }
    cq->head.store(&cq->ring.at(0), std::memory_order_relaxed);
    return cq.release();
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept {
    Cq* cq = create(context, cq_request(cqe, channel, vector));
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

// Immediate data and what a LID says don't exist in iWARP; asked for, they read as zero.
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    CqRequest request{};
    if (const int error =
            read_extended_request(context, *attr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED, request)) {
        return fail_with<ibv_cq_ex>(error);
    }
    Cq* cq = create(context, request);
    if (cq != nullptr) {
        set_poll_functions(*cq);
    }
    return cq;
}

int destroy_cq(ibv_cq* ibcq) noexcept {
    Cq& cq = cq_of(ibcq);
    if (const int error = retire(cq)) {
        return error;
    }
    delete &cq;
    return 0;
}

// The kernel looks at a word behind the ring when it completes something: no system call. The
// store must be seen before the program polls for the last time and goes to sleep. The kernel's siw doesn't
// know any more that a receive was solicited when it completes it: a program that waits for those only is
// woken for each: it would wait for ever otherwise.
int req_notify_cq(ibv_cq* ibcq, int) noexcept {
    constexpr std::uint32_t kEach = SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION;
    __atomic_store_n(&cq_of(ibcq).control().flags, kEach, __ATOMIC_SEQ_CST);
    (void)look_after_device(ibcq->context); // what is flushed then finds the queue armed
    return 0;
}

} // namespace sluice::provider::siw
