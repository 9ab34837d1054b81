// SPDX-License-Identifier: BSD-3-Clause
//
// Posting: no allocation, no exception, no lock but the direction's.
#include <array>

#include "udapl/provider/ep.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

EpAnswer Ep::post_receive(Parts parts, std::uint64_t cookie, bool is_quiet) noexcept {
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
    if (is_quiet && parts_.options.receive_model != EvdModel::kUnlessQuiet) {
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
    ibv_recv_wr request{};
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(parts.size());
    Dto& dto = receives_.next_locked();
    dto.endpoint = handle();
    dto.cookie = cookie;
    dto.length = 0;
    dto.is_silent = false;
    dto.is_quiet = is_quiet;
    dto.keep(parts);
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    ibv_recv_wr* bad = nullptr;
    if (qp_->post_recv(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    receives_.count_locked(true);
    return EpAnswer::kDone;
}

// What is posted to an endpoint that has ended: not every device flushes it. Behind what was posted before.
EpAnswer Ep::flush(Evd& evd, std::uint64_t cookie) const noexcept {
    evd.collect();
    const Event event{EventKind::kDto, handle(), DtoStatus::kFlushed, false, cookie};
    return evd.post(event) == EvdAnswer::kDone ? EpAnswer::kDone : EpAnswer::kFull;
}

// Whether a request with these may be posted at all, at this moment.
EpAnswer Ep::check_state(PostFlags flags) const noexcept {
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
EpAnswer Ep::post_request(Parts parts, const RemotePart& remote, std::uint64_t cookie,
                          PostFlags flags) noexcept {
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
    dto.is_silent = flags.is_silent();
    dto.is_quiet = flags.is_quiet();
    if (kKind == EpRequest::kRead) {
        dto.keep(parts);
    }
    const bool will_tell = !flags.is_silent() || dto.part_count != 0 || requests_.must_tell(dto);
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
    request.send_flags = (flags.is_solicited() ? IBV_SEND_SOLICITED : 0) |
                         (flags.is_fenced() ? IBV_SEND_FENCE : 0) | (will_tell ? IBV_SEND_SIGNALED : 0);
    ibv_send_wr* bad = nullptr;
    if (qp_->post_send(&request, &bad) != 0) {
        return EpAnswer::kFailed;
    }
    requests_.count_locked(will_tell);
    return EpAnswer::kDone;
}

template EpAnswer Ep::post_request<EpRequest::kSend>(Parts, const RemotePart&, std::uint64_t,
                                                     PostFlags) noexcept;
template EpAnswer Ep::post_request<EpRequest::kWrite>(Parts, const RemotePart&, std::uint64_t,
                                                      PostFlags) noexcept;
template EpAnswer Ep::post_request<EpRequest::kRead>(Parts, const RemotePart&, std::uint64_t,
                                                     PostFlags) noexcept;

// Always told: whoever binds has to know when the region that was bound before is free.
EpAnswer Ep::post_bind(const BindRequest& bind, std::uint64_t cookie, PostFlags flags) noexcept {
    const LockGuard guard(requests_.lock());
    if (const EpAnswer bad = check_state(flags); bad != EpAnswer::kDone) {
        return bad;
    }
    if ((parts_.evds.request->streams() & kBindStream) == 0) {
        return EpAnswer::kNoBindStream;
    }
    if (&bind.pz != parts_.pz.get()) {
        return EpAnswer::kOtherZone;
    }
    if (requests_.is_full_locked()) {
        return EpAnswer::kFull;
    }
    Dto& dto = requests_.next_locked();
    dto.endpoint = handle();
    dto.window = bind.handle;
    dto.cookie = cookie;
    dto.length = bind.number;
    dto.is_silent = flags.is_silent();
    dto.is_quiet = flags.is_quiet();
    ibv_mw_bind request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    request.send_flags = IBV_SEND_SIGNALED | (flags.is_fenced() ? unsigned{IBV_SEND_FENCE} : 0U);
    request.bind_info = bind.info;
    if (bind.window.bind(qp_->get(), request) != 0) {
        return EpAnswer::kFailed;
    }
    requests_.count_locked(true);
    return EpAnswer::kDone;
}

// A write of nothing: it is done when all before it is. Not needed where the last request tells by itself.
bool Ep::post_marker() noexcept {
    const LockGuard guard(requests_.lock());
    if (requests_.is_idle() || requests_.last_will_tell_locked()) {
        return true;
    }
    Dto& dto = requests_.marker_locked();
    dto.endpoint = handle();
    ibv_send_wr request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return qp_->post_send(&request, &bad) == 0;
}

} // namespace sluice::dapl
