// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues: made, resized, armed and destroyed. Polling is in poll.cpp.
#include <sys/mman.h>

#include <new>

#include "core/log.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

abi::Uverbs& uverbs_of(const ibv_cq_ex& cq) noexcept {
    return context_of(cq.context).uverbs;
}

struct CqRequest {
    std::uint32_t cqe;
    std::uint32_t vector;
    ibv_comp_channel* channel;
    void* cq_context;
    std::uint32_t kernel_flags;
    bool single_threaded;
};

// Puts a ring that was mapped in front of the pollers.
void install_ring(Cq& cq, abi::Mapping& mapping, const Ring& ring) noexcept {
    std::swap(cq.mapping, mapping);
    cq.ring = ring;
    cq.next.store(ring.consumed(), std::memory_order_relaxed);
    cq.produced_word.store(ring.produced_word(), std::memory_order_release);
}

int map_ring(const abi::Uverbs& uverbs, const mminfo& info, abi::Mapping& mapping, Ring& ring) noexcept {
    if (const int error = mapping.map(uverbs, info.size, info.offset)) {
        return error;
    }
    return ring.attach(mapping.data(), mapping.len_bytes(), sizeof(ib_uverbs_wc));
}

int destroy_in_kernel(const Cq& cq, ib_uverbs_destroy_cq_resp& answer) noexcept {
    ib_uverbs_destroy_cq command{};
    command.cq_handle = cq.handle;
    return destroy_result(uverbs_of(cq).invoke(IB_USER_VERBS_CMD_DESTROY_CQ, command, answer));
}

int create_in_kernel(Cq& cq, const CqRequest& request, rxe_create_cq_resp& ring) noexcept {
    ib_uverbs_ex_create_cq command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(ibv_cq_ex_to_cq(&cq));
    command.cqe = request.cqe;
    command.comp_vector = request.vector;
    command.comp_channel = request.channel != nullptr ? request.channel->fd : -1;
    command.flags = request.kernel_flags;
    ib_uverbs_ex_create_cq_resp answer{};
    const int error = uverbs_of(cq).invoke(IB_USER_VERBS_EX_CMD_CREATE_CQ | IB_USER_VERBS_CMD_FLAG_EXTENDED,
                                           command, answer, abi::driver_answer(ring));
    cq.handle = answer.base.cq_handle;
    cq.cqe = static_cast<int>(answer.base.cqe);
    return error;
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
    rxe_create_cq_resp shared{};
    if (const int error = create_in_kernel(*cq, request, shared)) {
        return fail_with<Cq>(error);
    }
    abi::Mapping mapping;
    Ring ring;
    if (const int error = map_ring(uverbs_of(*cq), shared.mi, mapping, ring)) {
        ib_uverbs_destroy_cq_resp ignored{};
        (void)destroy_in_kernel(*cq, ignored);
        return fail_with<Cq>(error);
    }
    install_ring(*cq, mapping, ring);
    return cq.release();
}

// Takes the memory out of a mapping and leaves the address range, readable and empty.
void hollow_out(const abi::Uverbs& uverbs, const abi::Mapping& mapping) noexcept {
    (void)uverbs.kernel().mmap(mapping.data(), mapping.len_bytes(), PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept {
    Cq* cq = create(context, {.cqe = static_cast<std::uint32_t>(cqe),
                              .vector = static_cast<std::uint32_t>(vector),
                              .channel = channel,
                              .cq_context = nullptr,
                              .kernel_flags = 0,
                              .single_threaded = false});
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    constexpr std::uint32_t kKnownFlags =
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    const std::uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    ibv_pd* domain = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attr->parent_domain : nullptr;
    if ((attr->comp_mask & ~kKnownMask) != 0 || (flags & ~kKnownFlags) != 0 ||
        (attr->wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
        return fail_with<ibv_cq_ex>(EOPNOTSUPP);
    }
    if (domain != nullptr && domain_of(domain).parent == nullptr) {
        return fail_with<ibv_cq_ex>(EINVAL);
    }
    Cq* cq =
        create(context, {.cqe = attr->cqe,
                         .vector = attr->comp_vector,
                         .channel = attr->channel,
                         .cq_context = attr->cq_context,
                         .kernel_flags = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0
                                             ? static_cast<std::uint32_t>(IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
                                             : 0,
                         .single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0 ||
                                            is_single_threaded(domain)});
    if (cq != nullptr) {
        set_poll_functions(*cq);
    }
    return cq;
}

// The kernel moves what is in the old ring into a new one in the middle of the command, so that
// nobody may poll meanwhile.
int resize_cq(ibv_cq* ibcq, int cqe) noexcept {
    Cq& cq = cq_of(ibcq);
    std::unique_ptr<RetiredRing> retired(new (std::nothrow) RetiredRing);
    if (retired == nullptr) {
        return ENOMEM;
    }
    ib_uverbs_resize_cq command{};
    command.cq_handle = cq.handle;
    command.cqe = static_cast<std::uint32_t>(cqe);
    ib_uverbs_resize_cq_resp answer{};
    rxe_resize_cq_resp shared{};
    const LockGuard guard(cq.lock);
    if (const int error =
            uverbs_of(cq).invoke(IB_USER_VERBS_CMD_RESIZE_CQ, command, answer, abi::driver_answer(shared))) {
        return error;
    }
    Ring ring;
    if (const int error = map_ring(uverbs_of(cq), shared.mi, retired->mapping, ring)) {
        // The kernel fills a ring that we can't see. What was completed before stays readable.
        SLUICE_LOG(kError, "provider", "a resized completion queue can't be mapped; it gets no completions");
        return error;
    }
    install_ring(cq, retired->mapping, ring);
    hollow_out(uverbs_of(cq), retired->mapping);
    retired->older = std::move(cq.retired);
    cq.retired = std::move(retired);
    cq.cqe = static_cast<int>(answer.cqe);
    return 0;
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

int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
    const Cq& cq = cq_of(ibcq);
    const abi::WriteCommand<ib_uverbs_req_notify_cq> command(
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        {.cq_handle = cq.handle, .solicited_only = solicited_only != 0 ? 1U : 0U}, 0);
    return uverbs_of(cq).send(command, nullptr, 0);
}

} // namespace sluice::provider::rxe
