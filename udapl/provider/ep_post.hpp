// SPDX-License-Identifier: BSD-3-Clause
//
// Posting: no allocation, no exception, no lock but the direction's. Inline, for the one place that calls it.
#pragma once

#include <array>

#include "udapl/provider/ep.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

[[gnu::always_inline]] inline EpAnswer Ep::post_receive(Parts parts, std::uint64_t cookie,
                                                        PostFlags flags) noexcept {
    const LockGuard guard(receives_.lock());
    if (parts_.srq) {
        return EpAnswer::kShared;
    }
    if (!parts_.evds.receive) {
        return EpAnswer::kNoEvd;
    }
    if (parts.size() > parts_.options.max_receive_parts) {
        return EpAnswer::kTooManyParts;
    }
    if (flags.is_quiet() && parts_.options.receive_model != EvdModel::kUnlessQuiet) {
        return EpAnswer::kBadFlag;
    }
    std::array<ibv_sge, kMaxParts> list;
    std::uint64_t total = 0;
    const PartsContext context{ia().device().memory(), parts_.pz->number(), kMaxMessage};
    if (const EpAnswer bad = translate(context, parts, kLocalWrite, list.data(), total);
        bad != EpAnswer::kDone) {
        return bad;
    }
    if (state() == EpState::kDisconnected) {
        return flush(*parts_.evds.receive, cookie);
    }
    if (receives_.is_full_locked()) {
        return EpAnswer::kFull;
    }
    ibv_recv_wr request;
    request.next = nullptr;
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(parts.size());
    Dto& dto = receives_.next_locked();
    dto.endpoint = handle();
    dto.cookie = cookie;
    dto.length = 0;
    dto.traits = flags.bits;
    dto.keep(parts);
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    ibv_recv_wr* bad = nullptr;
    if (qp_->post_recv(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    receives_.count_locked(true);
    return EpAnswer::kDone;
}

// Whether a request with these may be posted at all, at this moment.
inline EpAnswer Ep::check_state(PostFlags flags) const noexcept {
    if (!parts_.evds.request) {
        return EpAnswer::kNoEvd;
    }
    if (flags.is_quiet() && parts_.options.request_model != EvdModel::kUnlessQuiet) {
        return EpAnswer::kBadFlag;
    }
    const EpState now = state();
    return now == EpState::kConnected || now == EpState::kDisconnected ? EpAnswer::kDone
                                                                       : EpAnswer::kBadState;
}

template<EpRequest kKind>
[[gnu::always_inline]] inline EpAnswer Ep::post_request(Parts parts, const RemotePart& remote,
                                                        std::uint64_t cookie, PostFlags flags) noexcept {
    constexpr bool kIsSend = kKind == EpRequest::kSend;
    constexpr ibv_wr_opcode kOpcode = kIsSend                      ? IBV_WR_SEND
                                      : kKind == EpRequest::kWrite ? IBV_WR_RDMA_WRITE
                                                                   : IBV_WR_RDMA_READ;
    constexpr unsigned kNeeded = kKind == EpRequest::kRead ? kLocalWrite : kLocalRead;
    const LockGuard guard(requests_.lock());
    const EpOptions& options = parts_.options;
    if (parts.size() > (kIsSend                      ? options.max_request_parts
                        : kKind == EpRequest::kWrite ? options.max_write_parts
                                                     : options.max_read_parts)) {
        return EpAnswer::kTooManyParts;
    }
    if (const EpAnswer bad = check_state(flags); bad != EpAnswer::kDone) {
        return bad;
    }
    std::array<ibv_sge, kMaxParts> list;
    std::uint64_t total = 0;
    const PartsContext context{ia().device().memory(), parts_.pz->number(),
                               kIsSend ? options.max_message : options.max_rdma};
    if (const EpAnswer bad = translate(context, parts, kNeeded, list.data(), total); bad != EpAnswer::kDone) {
        return bad;
    }
    if (!kIsSend && total > remote.length) {
        return EpAnswer::kTooLong;
    }
    if (state() == EpState::kDisconnected) {
        return flush(*parts_.evds.request, cookie);
    }
    if (requests_.is_full_locked()) {
        return EpAnswer::kFull;
    }
    Dto& dto = requests_.next_locked();
    dto.endpoint = handle();
    dto.cookie = cookie;
    dto.length = total;
    dto.traits = flags.bits;
    if (kKind == EpRequest::kRead) {
        dto.keep(parts);
    }
    const bool will_tell = !flags.is_silent() || dto.is(Dto::kKept) || requests_.must_tell(dto);
    // What its opcode has. All of it would be 128 bytes to clear, for which gcc takes a slow instruction.
    ibv_send_wr request;
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    request.next = nullptr;
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(parts.size());
    request.opcode = kOpcode;
    request.imm_data = 0;
    if (!kIsSend) {
        request.wr.rdma.remote_addr = remote.address;
        request.wr.rdma.rkey = remote.key;
    }
    request.send_flags = will_tell ? IBV_SEND_SIGNALED : 0;
    if (flags.is_solicited() || flags.is_fenced()) [[unlikely]] {
        request.send_flags |=
            (flags.is_solicited() ? IBV_SEND_SOLICITED : 0) | (flags.is_fenced() ? IBV_SEND_FENCE : 0);
    }
    ibv_send_wr* bad = nullptr;
    if (qp_->post_send(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    requests_.count_locked(will_tell);
    return EpAnswer::kDone;
}

} // namespace sluice::dapl
