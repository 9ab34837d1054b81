// SPDX-License-Identifier: BSD-3-Clause
//
// Posts that are less frequent.
#include "udapl/provider/ep_post.hpp"

namespace sluice::dapl {

// The records of requests that are over come free when their completions are read; EVD is where RING
// completes.
bool EpQueues::has_room_after_collecting_locked(DtoRing& ring, Evd& evd) noexcept {
    evd.queue().collect();
    return !ring.is_full_locked();
}

// A post to an endpoint that has ended, behind the posts before: not every device flushes it.
EpAnswer EpQueues::flush(Evd& evd, std::uint64_t cookie, DtoOperation operation) const noexcept {
    evd.queue().collect();
    const Event event{EventKind::kDto, owner_.handle(), DtoStatus::kFlushed, false, operation, 0, cookie};
    return evd.post(event) == EvdAnswer::kDone ? EpAnswer::kDone : EpAnswer::kFull;
}

// Always signaled: the region that was bound before is free when this is complete.
EpAnswer EpQueues::post_bind(const BindRequest& bind, std::uint64_t cookie, PostFlags flags) noexcept {
    const LockGuard guard(requests_.lock());
    if (const EpAnswer bad = check_state(flags); bad != EpAnswer::kDone) {
        return bad;
    }
    if ((setup_.evds.request->streams() & kBindStream) == 0) {
        return EpAnswer::kNoBindStream;
    }
    if (&bind.pz != setup_.pz.get()) {
        return EpAnswer::kOtherZone;
    }
    if (requests_.is_full_locked() && !has_room_after_collecting_locked(requests_, *setup_.evds.request)) {
        return EpAnswer::kFull;
    }
    Dto& dto = requests_.next_locked();
    dto.endpoint = owner_.handle();
    dto.window = bind.handle;
    dto.cookie = cookie;
    dto.length = bind.number;
    dto.traits = flags.bits | Dto::kBind | Dto::traits_of(DtoOperation::kBind);
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

// A write of nothing: it is done when all before it is. Not needed where the last request is signaled.
bool EpQueues::post_marker() noexcept {
    const LockGuard guard(requests_.lock());
    if (requests_.is_idle() || requests_.is_last_signaled_locked()) {
        return true;
    }
    Dto& dto = requests_.marker_locked();
    dto.endpoint = owner_.handle();
    ibv_send_wr request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(&dto);
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return qp_->post_send(&request, &bad) == 0;
}

} // namespace sluice::dapl
