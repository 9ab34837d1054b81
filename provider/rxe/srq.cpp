// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues.
#include <new>

#include "core/log.hpp"
#include "provider/common/verbs.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

abi::Uverbs& uverbs_of(const Srq& srq) noexcept {
    return context_of(srq.srq.context).uverbs;
}

// Maps a ring of at least MAX_WR receive requests.
int map_ring(const abi::Uverbs& uverbs, const mminfo& info, std::uint32_t max_wr, std::uint32_t max_sge,
             RecvQueue& queue) noexcept {
    abi::Mapping mapping;
    if (const int error = mapping.map(uverbs, info.size, info.offset)) {
        return error;
    }
    const std::size_t bytes = kRecvHeaderBytes + std::size_t{max_sge} * sizeof(rxe_sge);
    if (const int error = queue.ring.attach(mapping.data(), mapping.len_bytes(), bytes, max_wr)) {
        return error;
    }
    queue.mapping = std::move(mapping);
    queue.max_sge = max_sge;
    return 0;
}

Srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attr) noexcept {
    std::unique_ptr<Srq> srq(new (std::nothrow) Srq{});
    if (srq == nullptr) {
        return fail_with<Srq>(ENOMEM);
    }
    ib_uverbs_create_srq_resp answer{};
    rxe_create_srq_resp shared{};
    if (const int error = make_in_kernel(*srq, pd, srq_context, attr, answer, abi::driver_answer(shared))) {
        return fail_with<Srq>(error);
    }
    if (is_single_threaded(pd)) {
        srq->queue.lock.elide();
    }
    srq->srq_num = shared.srq_num;
    if (const int error = map_ring(uverbs_of(*srq), shared.mi, answer.max_wr, answer.max_sge, srq->queue)) {
        unmake_in_kernel(*srq);
        return fail_with<Srq>(error);
    }
    attr.max_wr = answer.max_wr;
    attr.max_sge = answer.max_sge;
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

// A new size means a new ring, about which the kernel writes to memory of ours. What waits in
// the old ring moves over.
int modify_srq(ibv_srq* ibsrq, ibv_srq_attr* attr, int mask) noexcept {
    Srq& srq = srq_of(ibsrq);
    ib_uverbs_modify_srq command{};
    command.srq_handle = ibsrq->handle;
    command.attr_mask = static_cast<std::uint32_t>(mask);
    command.max_wr = attr->max_wr;
    command.srq_limit = attr->srq_limit;
    mminfo info{};
    rxe_modify_srq_cmd driver{.mmap_info_addr = reinterpret_cast<std::uintptr_t>(&info)};
    const abi::DriverData data{.in = std::as_bytes(std::span(&driver, 1)), .out = {}};
    const LockGuard guard(srq.queue.lock);
    if (const int error = uverbs_of(srq).invoke(IB_USER_VERBS_CMD_MODIFY_SRQ, command, data)) {
        return error;
    }
    if ((mask & IBV_SRQ_MAX_WR) == 0) {
        return 0;
    }
    if (const int error = map_ring(uverbs_of(srq), info, attr->max_wr, srq.queue.max_sge, srq.queue)) {
        SLUICE_LOG(kError, "provider",
                   "a resized shared receive queue can't be mapped; its requests are lost");
        return error;
    }
    return 0;
}

int destroy_srq(ibv_srq* ibsrq) noexcept {
    Srq& srq = srq_of(ibsrq);
    if (const int error = retire(srq)) {
        return error;
    }
    delete &srq;
    return 0;
}

} // namespace sluice::provider::rxe
