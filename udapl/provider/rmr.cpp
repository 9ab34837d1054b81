// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/rmr.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

Result<std::unique_ptr<Rmr>> Rmr::make(IaContext& ia, Ref<Pz> pz) {
    if (ia.device().limits().max_mw == 0) {
        return Error(ErrorKind::kNotSupported, "this device has no memory windows");
    }
    Result<glue::MemoryWindow> window = glue::MemoryWindow::make(pz->domain(), IBV_MW_TYPE_1);
    if (!window) {
        return std::move(window).error();
    }
    return std::unique_ptr<Rmr>(new Rmr(ia, std::move(pz), *std::move(window)));
}

RmrView Rmr::view() noexcept {
    const LockGuard guard(mutex_);
    return view_;
}

// A peer gets no right that this program hasn't.
EpAnswer Rmr::find(const coherence::Segment& segment, unsigned privileges, Ref<Lmr>& lmr) const noexcept {
    coherence::Region region;
    const SegmentContext context{ia().device().memory(), pz_->number(), segment.length};
    if (const EpAnswer bad = find_region(context, segment, region); bad != EpAnswer::kDone) {
        return bad;
    }
    if ((privileges & kRemoteRead) != 0 && (region.flags & kLocalRead) == 0) {
        return EpAnswer::kNotReadable;
    }
    if ((privileges & kRemoteWrite) != 0 && (region.flags & kLocalWrite) == 0) {
        return EpAnswer::kNotWritable;
    }
    lmr = ia().device().lmrs().hold(segment.context);
    return lmr ? EpAnswer::kDone : EpAnswer::kNoRegion;
}

EpAnswer Rmr::begin_bind_locked() {
    if (!is_spoilt_) {
        return EpAnswer::kDone;
    }
    Result<glue::MemoryWindow> fresh = glue::MemoryWindow::make(pz_->domain(), IBV_MW_TYPE_1);
    if (!fresh) {
        SLUICE_LOG(kInfo, "dat", "binding: %s (%d)", fresh.error().text(), fresh.error().os_errno());
        return EpAnswer::kNoResources;
    }
    window_ = *std::move(fresh);
    bindings_.clear();
    is_spoilt_ = false;
    return EpAnswer::kDone;
}

BindRequest Rmr::request_locked(const coherence::Segment& segment, unsigned privileges, Ref<Lmr> lmr) {
    unsigned access = (privileges & kRemoteRead) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    access |= (privileges & kRemoteWrite) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0;
    ibv_mw_bind_info info{};
    if (lmr) {
        info = {lmr->region(), segment.address, segment.length, access};
    }
    const std::uint64_t number = ++last_number_;
    bindings_.push_back({number, std::move(lmr)}); // before it may complete
    return {window_, info, *pz_, handle(), number};
}

void Rmr::end_bind_locked(const RmrView& bound, bool is_posted) noexcept {
    if (is_posted) {
        view_ = bound;
    } else {
        bindings_.pop_back();
    }
}

void Rmr::on_bound(std::uint64_t number, bool is_success) noexcept {
    const LockGuard guard(mutex_);
    const auto bound = std::ranges::find(bindings_, number, &Binding::number);
    if (bound == bindings_.end()) {
        return; // of a window that was replaced
    }
    if (is_success) {
        bindings_.erase(bindings_.begin(), bound);
        return;
    }
    bindings_.erase(bound);
    is_spoilt_ = true;
}

} // namespace sluice::dapl
