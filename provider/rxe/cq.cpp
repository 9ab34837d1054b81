// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues: made, resized, armed and destroyed. Polling is in poll.cpp.
#include <sys/mman.h>

#include <new>

#include "core/log.hpp"
#include "provider/common/look_after.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

abi::Uverbs& uverbs_of(const ibv_cq_ex& cq) noexcept {
    return context_of(cq.context).uverbs;
}

// Puts a ring that was mapped in front of the pollers.
void install_ring(Cq& cq, abi::Mapping& mapping, const Ring& ring) noexcept {
    std::swap(cq.mapping, mapping);
    cq.ring = ring;
    cq.next.store(ring.consumed(), std::memory_order_relaxed);
    cq.produced_word.store(ring.produced_word(), std::memory_order_release);
}

int map_ring(const abi::Uverbs& uverbs, const mminfo& info, std::uint32_t cqe, abi::Mapping& mapping,
             Ring& ring) noexcept {
    if (const int error = mapping.map(uverbs, info.size, info.offset)) {
        return error;
    }
    return ring.attach(mapping.data(), mapping.len_bytes(), sizeof(ib_uverbs_wc), cqe);
}

Cq* create(ibv_context* context, const CqRequest& request) noexcept {
    std::unique_ptr<Cq> cq(new (std::nothrow) Cq{});
    if (cq == nullptr) {
        return fail_with<Cq>(ENOMEM);
    }
    rxe_create_cq_resp shared{};
    if (const int error = make_in_kernel(*cq, context, request, abi::driver_answer(shared))) {
        return fail_with<Cq>(error);
    }
    abi::Mapping mapping;
    Ring ring;
    if (const int error =
            map_ring(uverbs_of(*cq), shared.mi, static_cast<std::uint32_t>(cq->cqe), mapping, ring)) {
        unmake_in_kernel(*cq);
        return fail_with<Cq>(error);
    }
    install_ring(*cq, mapping, ring);
    return cq.release();
}

// Sends of QP that the kernel has yet to complete, and will report.
std::uint32_t owed_by(Qp& qp) noexcept {
    const LockGuard guard(qp.send.lock);
    const Ring& ring = qp.send.ring.ring();
    std::uint32_t owed = 0;
    for (std::uint32_t at = ring.consumed(); at != qp.send.ring.next(); at = (at + 1) & ring.mask()) {
        const auto* wqe = static_cast<const rxe_send_wqe*>(ring.element(at));
        owed += qp.send.signal_all || (wqe->wr.send_flags & IBV_SEND_SIGNALED) != 0 ? 1 : 0;
    }
    return owed;
}

// Completions that the queue must have room for: those that nobody has polled yet, and those of
// sends under way. The kernel counts the former only, so that a queue could be made too small for
// what comes a moment later.
std::uint32_t completions_due(Cq& cq) noexcept SLUICE_TSA(requires_capability(cq.lock)) {
    std::uint32_t due = (cq.ring.produced() - cq.next.load(std::memory_order_relaxed)) & cq.ring.mask();
    const LockGuard guard(cq.members_mutex);
    for (const Membership* member = cq.members; member != nullptr; member = member->next) {
        due += member->sends ? owed_by(*member->qp) : 0;
    }
    return due;
}

// Takes the memory out of a mapping and leaves the address range, readable and empty.
void hollow_out(const abi::Uverbs& uverbs, const abi::Mapping& mapping) noexcept {
    (void)uverbs.kernel().mmap(mapping.data(), mapping.len_bytes(), PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

} // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int vector) noexcept {
    Cq* cq = create(context, cq_request(cqe, channel, vector));
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    CqRequest request{};
    if (const int error = read_extended_request(
            context, *attr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
            request)) {
        return fail_with<ibv_cq_ex>(error);
    }
    Cq* cq = create(context, request);
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
    if (cqe < 1 || completions_due(cq) > command.cqe) {
        return EINVAL;
    }
    if (const int error =
            uverbs_of(cq).invoke(IB_USER_VERBS_CMD_RESIZE_CQ, command, answer, abi::driver_answer(shared))) {
        return error;
    }
    Ring ring;
    if (const int error = map_ring(uverbs_of(cq), shared.mi, answer.cqe, retired->mapping, ring)) {
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
    if (const int error = retire(cq)) {
        return error;
    }
    delete &cq;
    return 0;
}

int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
    const Cq& cq = cq_of(ibcq);
    const abi::WriteCommand<ib_uverbs_req_notify_cq> command(
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        {.cq_handle = cq.handle, .solicited_only = solicited_only != 0 ? 1U : 0U}, 0);
    const int error = uverbs_of(cq).send(command, nullptr, 0);
    (void)look_after_device(cq.context); // what is flushed then finds the queue armed
    return error;
}

} // namespace sluice::provider::rxe
