// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/srq.hpp"

#include <algorithm>
#include <array>

#include "core/log.hpp"
#include "udapl/provider/event_queue.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

Result<std::unique_ptr<Srq>> Srq::make(IaContext& ia, Ref<Pz> pz, SrqOptions& options) {
    auto srq = std::unique_ptr<Srq>(new Srq(ia, std::move(pz)));
    if (Result<void> made = srq->make_queue(options); !made) {
        return std::move(made).error();
    }
    return srq;
}

Result<void> Srq::make_queue(SrqOptions& options) {
    ibv_srq_init_attr attributes{};
    attributes.srq_context = static_cast<AsyncEventTarget*>(this);
    attributes.attr.max_wr = options.max_receives;
    attributes.attr.max_sge = options.max_segments;
    Result<glue::SharedReceiveQueue> queue = glue::SharedReceiveQueue::make(pz_->domain(), attributes);
    if (!queue) {
        return std::move(queue).error();
    }
    queue_ = *std::move(queue);
    // Some devices fill up a page, and DAT has no second count for that.
    options.max_receives = std::max(options.max_receives, attributes.attr.max_wr);
    options.max_segments = std::min(std::max(options.max_segments, attributes.attr.max_sge), kMaxSegments);
    max_segments_ = options.max_segments;
    pool_.grow(options.max_receives, kept_segments());
    max_receives_ = options.max_receives;
    const LockGuard guard(mutex_);
    device_size_ = options.max_receives;
    return {};
}

std::uint32_t Srq::kept_segments() const noexcept {
    return ia().device().memory().sync_required() ? max_segments_ : 0;
}

EpAnswer Srq::post(Segments segments, std::uint64_t cookie) noexcept {
    if (segments.size() > max_segments_) {
        return EpAnswer::kTooManySegments;
    }
    std::array<ibv_sge, kMaxSegments> list;
    std::uint64_t total = 0;
    const SegmentContext context{ia().device().memory(), pz_->number(), kMaxMessage};
    if (const EpAnswer bad = translate(context, segments, kLocalWrite, list.data(), total);
        bad != EpAnswer::kDone) {
        return bad;
    }
    const LockGuard guard(post_lock_);
    Dto* const dto = begin_post(cookie);
    if (dto == nullptr) {
        return EpAnswer::kFull;
    }
    dto->keep(segments);
    ibv_recv_wr request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(dto);
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(segments.size());
    ibv_recv_wr* bad = nullptr;
    if (queue_->post_recv(&request, &bad) == 0) {
        return EpAnswer::kDone;
    }
    cancel_post(*dto);
    return EpAnswer::kFailed;
}

void Srq::on_async_event(ibv_event_type type) noexcept {
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        report_low();
        return;
    }
    is_broken_ = true;
    ia().report({EventKind::kSrqBroken, handle()});
}

void Srq::collect() noexcept {
    const LockGuard guard(mutex_);
    EventQueue* events = nullptr;
    for (std::size_t index = 0; find_events_locked(index, events); ++index) {
        if (events != nullptr) {
            events->collect();
        }
    }
}

SrqCounts Srq::counts() noexcept {
    collect();
    return {max_receives_, available(), outstanding_, low_watermark_};
}

SrqAnswer Srq::resize(std::uint32_t max_receives) {
    collect();
    const LockGuard guard(mutex_);
    if (max_receives < outstanding_) {
        return SrqAnswer::kTooManyHeld;
    }
    if (max_receives < low_watermark_) {
        return SrqAnswer::kBelowMark;
    }
    if (max_receives > device_size_) {
        ibv_srq_attr attributes{};
        attributes.max_wr = max_receives;
        if (const Result<void> done = queue_->modify(attributes, IBV_SRQ_MAX_WR); !done) {
            SLUICE_LOG(kWarning, "dat", "resizing to %u receives: %s (%d)", max_receives, done.error().text(),
                       done.error().os_errno());
            return SrqAnswer::kNoResources;
        }
        pool_.grow(max_receives - device_size_, kept_segments());
        device_size_ = max_receives;
    }
    max_receives_ = max_receives; // where it shrinks, the device keeps its room
    return SrqAnswer::kDone;
}

// The device notifies of receives whose completions weren't looked at yet. Where the mark was passed before,
// the count shows it.
SrqAnswer Srq::set_low_watermark(std::uint32_t mark) noexcept {
    if (mark > max_receives_) {
        return SrqAnswer::kAboveMaximum;
    }
    low_watermark_ = mark;
    is_armed_ = mark != 0;
    ibv_srq_attr attributes{};
    attributes.srq_limit = mark;
    if (const Result<void> armed = queue_->modify(attributes, IBV_SRQ_LIMIT); !armed) {
        SLUICE_LOG(kInfo, "dat", "a low watermark is seen late: %s (%d)", armed.error().text(),
                   armed.error().os_errno());
    }
    if (counts().available < mark) {
        report_low();
    }
    return SrqAnswer::kDone;
}

} // namespace sluice::dapl
