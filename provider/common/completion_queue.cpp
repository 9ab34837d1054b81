// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/completion_queue.hpp"

namespace sluice::provider {

namespace {

int destroy_in_kernel(const CompletionQueue& cq, ib_uverbs_destroy_cq_resp& answer) noexcept {
    ib_uverbs_destroy_cq command{};
    command.cq_handle = cq.handle;
    return destroy_result(
        context_of(cq.context).uverbs.invoke(IB_USER_VERBS_CMD_DESTROY_CQ, command, answer));
}

} // namespace

CqRequest cq_request(int cqe, ibv_comp_channel* channel, int vector) noexcept {
    return {.cqe = static_cast<std::uint32_t>(cqe),
            .vector = static_cast<std::uint32_t>(vector),
            .channel = channel,
            .cq_context = nullptr,
            .kernel_flags = 0,
            .single_threaded = false};
}

int read_extended_request(const ibv_context* context, const ibv_cq_init_attr_ex& attr, std::uint32_t flags,
                          CqRequest& request) noexcept {
    constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const std::uint32_t wanted = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr.flags : 0;
    ibv_pd* domain = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attr.parent_domain : nullptr;
    if ((attr.comp_mask & ~kKnownMask) != 0 || (wanted & ~flags) != 0 ||
        (attr.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
        return EOPNOTSUPP;
    }
    if (domain != nullptr && (domain->context != context || domain_of(domain).parent == nullptr)) {
        return EINVAL;
    }
    request = {.cqe = attr.cqe,
               .vector = attr.comp_vector,
               .channel = attr.channel,
               .cq_context = attr.cq_context,
               .kernel_flags = (wanted & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0
                                   ? static_cast<std::uint32_t>(IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
                                   : 0,
               .single_threaded =
                   (wanted & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0 || is_single_threaded(domain)};
    return 0;
}

int make_in_kernel(CompletionQueue& cq, ibv_context* context, const CqRequest& request,
                   const abi::DriverData& driver) noexcept {
    if (request.channel != nullptr && request.channel->context != context) {
        return EINVAL;
    }
    cq.context = context;
    cq.channel = request.channel;
    cq.cq_context = request.cq_context;
    pthread_mutex_init(&cq.mutex, nullptr);
    pthread_cond_init(&cq.cond, nullptr);
    if (request.single_threaded) {
        cq.lock.elide();
    }
    ib_uverbs_ex_create_cq command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(ibv_cq_ex_to_cq(&cq));
    command.cqe = request.cqe;
    command.comp_vector = request.vector;
    command.comp_channel = request.channel != nullptr ? request.channel->fd : -1;
    command.flags = request.kernel_flags;
    ib_uverbs_ex_create_cq_resp answer{};
    const int error = context_of(context).uverbs.invoke(
        IB_USER_VERBS_EX_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED, command, answer, driver);
    cq.handle = answer.base.cq_handle;
    cq.cqe = static_cast<int>(answer.base.cqe);
    return error;
}

void unmake_in_kernel(const CompletionQueue& cq) noexcept {
    ib_uverbs_destroy_cq_resp ignored{};
    (void)destroy_in_kernel(cq, ignored);
}

int retire(CompletionQueue& cq) noexcept {
    ib_uverbs_destroy_cq_resp answer{};
    if (const int error = destroy_in_kernel(cq, answer)) {
        return error;
    }
    await_events(cq.mutex, cq.cond, cq.comp_events_completed, answer.comp_events_reported);
    await_events(cq.mutex, cq.cond, cq.async_events_completed, answer.async_events_reported);
    return 0;
}

} // namespace sluice::provider
