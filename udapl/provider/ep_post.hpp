// SPDX-License-Identifier: BSD-3-Clause
//
// Posting to an endpoint's queues: no allocation, no exception, no lock but the direction's while there is
// room for the request. Inline, for the one file that calls it.
#pragma once

#include <array>

#include "udapl/provider/ep_queues.hpp"

namespace sluice::dapl {

[[gnu::always_inline]] inline EpAnswer EpQueues::post_receive(Segments segments, std::uint64_t cookie,
                                                              PostFlags flags) noexcept {
    const LockGuard guard(receives_.lock());
    if (setup_.srq) {
        return EpAnswer::kShared;
    }
    if (!setup_.evds.receive) {
        return EpAnswer::kNoEvd;
    }
    if (segments.size() > setup_.options.max_receive_segments) {
        return EpAnswer::kTooManySegments;
    }
    if (flags.is_quiet() && setup_.options.receive_model != NotifyModel::kUnlessQuiet) {
        return EpAnswer::kBadFlag;
    }
    std::array<ibv_sge, kMaxSegments> list;
    std::uint64_t total = 0;
    const SegmentContext context{memory_, setup_.pz->number(), kMaxMessage};
    if (const EpAnswer bad = translate(context, segments, kLocalWrite, list.data(), total);
        bad != EpAnswer::kDone) {
        return bad;
    }
    if (state_.load(std::memory_order_acquire) == EpState::kDisconnected) {
        return flush(*setup_.evds.receive, cookie, DtoOperation::kReceive);
    }
    if (receives_.is_full_locked() && !has_room_after_collecting_locked(receives_, *setup_.evds.receive)) {
        return EpAnswer::kFull;
    }
    ibv_recv_wr request;
    request.next = nullptr;
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(segments.size());
    Dto& dto = receives_.next_locked();
    dto.endpoint = owner_.handle();
    dto.cookie = cookie;
    dto.length = 0;
    dto.traits = flags.bits | Dto::traits_of(DtoOperation::kReceive);
    dto.keep(segments);
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    ibv_recv_wr* bad = nullptr;
    if (qp_->post_recv(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    receives_.count_locked(true);
    return EpAnswer::kDone;
}

// Whether a request with FLAGS may be posted at this moment.
inline EpAnswer EpQueues::check_state(PostFlags flags) const noexcept {
    if (!setup_.evds.request) {
        return EpAnswer::kNoEvd;
    }
    if (flags.is_quiet() && setup_.options.request_model != NotifyModel::kUnlessQuiet) {
        return EpAnswer::kBadFlag;
    }
    const EpState now = state_.load(std::memory_order_acquire);
    return now == EpState::kConnected || now == EpState::kDisconnected ? EpAnswer::kDone
                                                                       : EpAnswer::kBadState;
}

// What verbs and DAT call a request.
struct RequestNames {
    ibv_wr_opcode opcode;
    DtoOperation operation;
};

constexpr RequestNames names_of(EpRequest kind) noexcept {
    switch (kind) {
    case EpRequest::kWrite:
        return {IBV_WR_RDMA_WRITE, DtoOperation::kWrite};
    case EpRequest::kRead:
        return {IBV_WR_RDMA_READ, DtoOperation::kRead};
    case EpRequest::kWriteImmediate:
        return {IBV_WR_RDMA_WRITE_WITH_IMM, DtoOperation::kWriteImmediate};
    case EpRequest::kFetchAdd:
        return {IBV_WR_ATOMIC_FETCH_AND_ADD, DtoOperation::kFetchAdd};
    case EpRequest::kCompareSwap:
        return {IBV_WR_ATOMIC_CMP_AND_SWP, DtoOperation::kCompareSwap};
    case EpRequest::kSend:
        break;
    }
    return {IBV_WR_SEND, DtoOperation::kSend};
}

template<EpRequest kKind>
[[gnu::always_inline]] inline EpAnswer EpQueues::post_request(Segments segments, const RemoteSegment& remote,
                                                              std::uint64_t cookie, PostFlags flags,
                                                              const RequestExtras& extras) noexcept {
    constexpr bool kIsSend = kKind == EpRequest::kSend;
    constexpr bool kIsAtomic = kKind == EpRequest::kFetchAdd || kKind == EpRequest::kCompareSwap;
    constexpr bool kIsRead = kKind == EpRequest::kRead || kIsAtomic; // it writes here
    constexpr bool kIsWrite = kKind == EpRequest::kWrite || kKind == EpRequest::kWriteImmediate;
    constexpr RequestNames kNames = names_of(kKind);
    constexpr unsigned kNeeded = kIsRead ? kLocalWrite : kLocalRead;
    const LockGuard guard(requests_.lock());
    const EpOptions& options = setup_.options;
    if (const EpAnswer bad = check_state(flags); bad != EpAnswer::kDone) {
        return bad;
    }
    if (segments.size() > (kIsSend    ? options.max_request_segments
                           : kIsWrite ? options.max_write_segments
                                      : options.max_read_segments)) {
        return EpAnswer::kTooManySegments;
    }
    // A read moves what the peer's segment has, a write and a send what the local ones have.
    if (kIsRead && remote.length > options.max_rdma) {
        return EpAnswer::kTooLong;
    }
    std::array<ibv_sge, kMaxSegments> list;
    std::uint64_t total = 0;
    const SegmentContext context{memory_, setup_.pz->number(),
                                 kIsRead   ? remote.length
                                 : kIsSend ? options.max_message
                                           : options.max_rdma,
                                 kIsRead};
    if (const EpAnswer bad = translate(context, segments, kNeeded, list.data(), total);
        bad != EpAnswer::kDone) {
        return bad;
    }
    if (kIsRead ? total < remote.length : !kIsSend && total > remote.length) {
        return EpAnswer::kTooLong;
    }
    if (state_.load(std::memory_order_acquire) == EpState::kDisconnected) {
        return flush(*setup_.evds.request, cookie, kNames.operation);
    }
    if (requests_.is_full_locked() && !has_room_after_collecting_locked(requests_, *setup_.evds.request)) {
        return EpAnswer::kFull;
    }
    Dto& dto = requests_.next_locked();
    dto.endpoint = owner_.handle();
    dto.cookie = cookie;
    dto.length = total;
    dto.traits = flags.bits | Dto::traits_of(kNames.operation);
    if (kIsRead) {
        dto.keep(segments);
    }
    const bool is_signaled = !flags.is_silent() || dto.is(Dto::kKept) || requests_.must_signal(dto);
    // What its opcode has. All of it would be 128 bytes to clear, for which gcc takes a slow instruction.
    ibv_send_wr request;
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    request.next = nullptr;
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(segments.size());
    request.opcode = kNames.opcode;
    request.imm_data = kKind == EpRequest::kWriteImmediate ? extras.immediate : 0;
    if (kIsAtomic) {
        request.wr.atomic.remote_addr = remote.address;
        request.wr.atomic.compare_add = extras.compare_add;
        request.wr.atomic.swap = extras.swap;
        request.wr.atomic.rkey = remote.key;
    } else if (!kIsSend) {
        request.wr.rdma.remote_addr = remote.address;
        request.wr.rdma.rkey = remote.key;
    }
    request.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0;
    if (flags.is_solicited() || flags.is_fenced()) [[unlikely]] {
        request.send_flags |=
            (flags.is_solicited() ? IBV_SEND_SOLICITED : 0) | (flags.is_fenced() ? IBV_SEND_FENCE : 0);
    }
    if (kIsRead && check_ != nullptr) [[unlikely]] {
        check_->before_read(dto, *qp_, remote.address, remote.length);
    }
    ibv_send_wr* bad = nullptr;
    if (qp_->post_send(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    requests_.count_locked(is_signaled);
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
