// SPDX-License-Identifier: BSD-3-Clause
//
// What is posted less often.
#include "udapl/provider/ep_post.hpp"

namespace sluice::dapl {

EpAnswer translate_each(coherence::Engine& memory, std::uint32_t zone, std::uint64_t limit, Parts parts,
                        unsigned needed, ibv_sge* list, std::uint64_t* total) noexcept {
    const PartsContext context{memory, zone, limit};
    for (const coherence::Segment& part : parts) {
        if (const EpAnswer bad = translate_one(context, part, needed, *list++, *total);
            bad != EpAnswer::kDone) {
            return bad;
        }
    }
    return EpAnswer::kDone;
}

// What is posted to an endpoint that has ended: not every device flushes it. Behind what was posted before.
EpAnswer Ep::flush(Evd& evd, std::uint64_t cookie) const noexcept {
    evd.collect();
    const Event event{EventKind::kDto, handle(), DtoStatus::kFlushed, false, cookie};
    return evd.post(event) == EvdAnswer::kDone ? EpAnswer::kDone : EpAnswer::kFull;
}

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
    dto.traits = flags.bits | Dto::kBind;
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
