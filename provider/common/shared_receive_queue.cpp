// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/shared_receive_queue.hpp"

namespace sluice::provider {

namespace {

int destroy_in_kernel(const abi::VerbsSrq& srq, ib_uverbs_destroy_srq_resp& answer) noexcept {
    ib_uverbs_destroy_srq command{};
    command.srq_handle = srq.srq.handle;
    return destroy_result(
        context_of(srq.srq.context).uverbs.invoke(IB_USER_VERBS_CMD_DESTROY_SRQ, command, answer));
}

} // namespace

int check_extended_request(const ibv_context* context, const ibv_srq_init_attr_ex& attr) noexcept {
    // Fields that belong to the other types mean nothing for a basic queue.
    if (attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED) {
        return EOPNOTSUPP;
    }
    const bool has_domain = (attr.comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 && attr.pd != nullptr;
    if (!has_domain || attr.pd->context != context) {
        return EINVAL;
    }
    const bool basic = (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr.srq_type == IBV_SRQT_BASIC;
    return basic ? 0 : EOPNOTSUPP;
}

int make_in_kernel(abi::VerbsSrq& srq, ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr,
                   ib_uverbs_create_srq_resp& answer, const abi::DriverData& driver) noexcept {
    srq.srq.context = pd->context;
    srq.srq.srq_context = srq_context;
    srq.srq.pd = pd;
    pthread_mutex_init(&srq.srq.mutex, nullptr);
    pthread_cond_init(&srq.srq.cond, nullptr);
    srq.srq_type = IBV_SRQT_BASIC;
    ib_uverbs_create_srq command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(&srq.srq);
    command.pd_handle = kernel_domain_of(pd).handle;
    command.max_wr = attr.max_wr;
    command.max_sge = attr.max_sge;
    command.srq_limit = attr.srq_limit;
    const int error =
        context_of(pd->context).uverbs.invoke(IB_USER_VERBS_CMD_CREATE_SRQ, command, answer, driver);
    srq.srq.handle = answer.srq_handle;
    return error;
}

void unmake_in_kernel(const abi::VerbsSrq& srq) noexcept {
    ib_uverbs_destroy_srq_resp ignored{};
    (void)destroy_in_kernel(srq, ignored);
}

int retire(abi::VerbsSrq& srq) noexcept {
    ib_uverbs_destroy_srq_resp answer{};
    if (const int error = destroy_in_kernel(srq, answer)) {
        return error;
    }
    await_events(srq.srq.mutex, srq.srq.cond, srq.srq.events_completed, answer.events_reported);
    return 0;
}

} // namespace sluice::provider
