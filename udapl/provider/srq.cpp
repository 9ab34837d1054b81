// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/srq.hpp"

#include <algorithm>
#include <array>

#include "core/log.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

Result<std::unique_ptr<Srq>> Srq::make(Ia& ia, Held<Pz> pz, SrqOptions& options) {
    auto srq = std::unique_ptr<Srq>(new Srq(ia, std::move(pz)));
    if (Result<void> made = srq->make_queue(options); !made) {
        return std::move(made).error();
    }
    return srq;
}

Srq::~Srq() {
    queue_.reset(); // from then on the device has nothing to tell
    ia().loop().cancel(*this);
}

Result<void> Srq::make_queue(SrqOptions& options) {
    ibv_srq_init_attr attributes{};
    attributes.srq_context = this;
    attributes.attr.max_wr = options.max_receives;
    attributes.attr.max_sge = options.max_parts;
    Result<glue::SharedReceiveQueue> queue = glue::SharedReceiveQueue::make(pz_->domain(), attributes);
    if (!queue) {
        return std::move(queue).error();
    }
    queue_ = *std::move(queue);
    // Some give what is left over of a page, which DAT's counts can't tell apart from what was asked for.
    options.max_receives = std::max(options.max_receives, attributes.attr.max_wr);
    options.max_parts = std::min(std::max(options.max_parts, attributes.attr.max_sge), kMaxParts);
    max_parts_ = options.max_parts;
    pool_.grow(options.max_receives, kept_parts());
    max_receives_ = options.max_receives;
    const LockGuard guard(mutex_);
    device_size_ = options.max_receives;
    return {};
}

std::uint32_t Srq::kept_parts() const noexcept {
    return ia().device().memory().sync_required() ? max_parts_ : 0;
}

EpAnswer Srq::post(Parts parts, std::uint64_t cookie) noexcept {
    if (parts.size() > max_parts_) {
        return EpAnswer::kTooManyParts;
    }
    std::array<ibv_sge, kMaxParts> list;
    std::uint64_t total = 0;
    const PartsContext context{ia().device().memory(), pz_->number(), kMaxMessage};
    if (const EpAnswer bad = translate(context, parts, kLocalWrite, list.data(), total);
        bad != EpAnswer::kDone) {
        return bad;
    }
    const LockGuard guard(post_lock_);
    Dto* const dto = available() < max_receives_ ? pool_.take() : nullptr;
    if (dto == nullptr) {
        return EpAnswer::kFull;
    }
    dto->shared = this;
    dto->cookie = cookie;
    dto->keep(parts);
    ibv_recv_wr request{};
    request.wr_id = reinterpret_cast<std::uintptr_t>(dto);
    request.sg_list = list.data();
    request.num_sge = static_cast<int>(parts.size());
    // Before the device may complete it.
    posted_.fetch_add(1, std::memory_order_relaxed);
    outstanding_.fetch_add(1, std::memory_order_relaxed);
    ibv_recv_wr* bad = nullptr;
    if (queue_->post_recv(&request, &bad) == 0) {
        return EpAnswer::kDone;
    }
    posted_.fetch_sub(1, std::memory_order_relaxed);
    reap();
    pool_.give(*dto);
    return EpAnswer::kFailed;
}

Dto Srq::finish(Dto& record, std::uint32_t number) noexcept {
    Dto dto = record;
    dto.ring = nullptr;
    {
        const LockGuard guard(seats_lock_);
        const auto seat = std::ranges::find(seats_, number, &Seat::number);
        if (seat != seats_.end()) {
            dto.ring = seat->ring;
            dto.endpoint = seat->endpoint->handle();
            dto.connection = seat->ring->connection();
        }
    }
    pool_.give(record);
    taken_.fetch_add(1, std::memory_order_relaxed);
    if (available() < low_watermark_.load(std::memory_order_relaxed)) {
        tell_low();
    }
    return dto;
}

void Srq::tell_low() noexcept {
    if (is_armed_.exchange(false)) {
        lows_.fetch_add(1);
        ia().loop().schedule(*this);
    }
}

void Srq::run() noexcept {
    for (std::uint32_t lows = lows_.exchange(0); lows != 0; --lows) {
        ia().tell({EventKind::kSrqLow, handle()});
    }
}

void Srq::on_device_error() noexcept {
    is_broken_ = true;
    ia().tell({EventKind::kSrqBroken, handle()});
}

void Srq::collect() noexcept {
    const LockGuard guard(mutex_);
    std::size_t next = 0;
    while (true) {
        Evd* evd = nullptr;
        {
            // Nobody comes or goes meanwhile; but completions look here under their dispatcher's lock.
            const LockGuard reading(seats_lock_);
            if (next == seats_.size()) {
                return;
            }
            evd = seats_[next++].evd;
        }
        if (evd != nullptr) {
            evd->collect();
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
        pool_.grow(max_receives - device_size_, kept_parts());
        device_size_ = max_receives;
    }
    max_receives_ = max_receives; // where it shrinks, the device keeps its room
    return SrqAnswer::kDone;
}

// The device tells what nobody has looked at yet; what it doesn't, because the mark was passed before, the
// count does.
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
        tell_low();
    }
    return SrqAnswer::kDone;
}

void Srq::attach(const Seat& seat) {
    const LockGuard guard(mutex_);
    const LockGuard changing(seats_lock_);
    const auto former = std::ranges::find(seats_, seat.endpoint, &Seat::endpoint);
    if (former != seats_.end()) {
        *former = seat;
    } else {
        seats_.push_back(seat);
    }
}

void Srq::detach(const Object& endpoint) noexcept {
    const LockGuard guard(mutex_);
    const LockGuard changing(seats_lock_);
    std::erase_if(seats_, [&](const Seat& seat) { return seat.endpoint == &endpoint; });
}

} // namespace sluice::dapl
