// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting is in evd_wait.cpp.
#include "udapl/provider/evd.hpp"

namespace sluice::dapl {

Evd::Evd(IaContext& ia, int length, unsigned streams, Sleeper sleeper)
    : EventSink(ia), streams_(streams), queue_(*this, *this, static_cast<std::size_t>(length)),
      sleeper_(std::move(sleeper)) {}

Result<std::unique_ptr<Evd>> Evd::make(IaContext& ia, int length, unsigned streams, Ref<Cno> cno) {
    Result<Sleeper> sleeper = Sleeper::make();
    if (!sleeper) {
        return std::move(sleeper).error();
    }
    auto evd = std::unique_ptr<Evd>(new Evd(ia, length, streams, *std::move(sleeper)));
    if ((streams & (kDtoStream | kBindStream)) != 0) {
        if (Result<void> opened = evd->queue_.open_completions(*evd); !opened) {
            return std::move(opened).error();
        }
    }
    evd->set_cno(std::move(cno));
    return evd;
}

Evd::~Evd() {
    dismiss_users();
    queue_.close();
    set_cno({});
}

void Evd::abandon() noexcept {
    const LockGuard guard(queue_.lock());
    is_abandoned_ = true;
    sleeper_.wake();
}

EvdView Evd::view() noexcept {
    const LockGuard guard(queue_.lock());
    return {static_cast<int>(queue_.ring_locked().length()), is_waitable_, cno_.is_enabled(),
            queue_.source_locked().model(), cno_.handle()};
}

bool Evd::has_waiter() noexcept {
    const LockGuard guard(queue_.lock());
    return queue_.has_waiter_locked();
}

void Evd::set_waitable(bool is_waitable) noexcept {
    const LockGuard guard(queue_.lock());
    is_waitable_ = is_waitable;
    is_dismissed_ = is_dismissed_ || (!is_waitable && queue_.has_waiter_locked());
    sleeper_.wake();
}

// Completions that are there already are events of before: they are queued before another rule holds.
void Evd::enable(bool is_enabled) noexcept {
    const LockGuard guard(queue_.lock());
    queue_.drain_locked();
    cno_.enable(is_enabled);
    queue_.set_cno_locked(cno_.is_active());
    queue_.serve_locked();
}

void Evd::set_cno(Ref<Cno> cno) noexcept {
    Ref<Cno> former; // let go without the lock
    const LockGuard guard(queue_.lock());
    queue_.drain_locked();
    const bool has_cno = static_cast<bool>(cno);
    former = cno_.replace(std::move(cno));
    queue_.set_cno_locked(cno_.is_active());
    if (has_cno) {
        queue_.serve_locked();
    }
}

// To the waiter, or else to the CNO.
void Evd::on_event_locked() noexcept {
    if (queue_.has_waiter_locked() && !is_dismissed_) {
        sleeper_.wake();
    } else {
        cno_.trigger(handle());
    }
}

// The completion queue has overflowed. The device may have no event for each queue pair that ends with it.
void Evd::on_async_event(ibv_event_type) noexcept {
    ia().report_overflow(*this);
    queue_.report_overrun();
}

EvdAnswer Evd::dequeue_other_locked(const ibv_wc* completion, Event& event) noexcept {
    if (queue_.has_waiter_locked()) {
        return EvdAnswer::kHasWaiter;
    }
    return queue_.take_locked(completion, event) ? EvdAnswer::kDone : EvdAnswer::kEmpty;
}

EvdAnswer Evd::resize(int length) {
    const auto wanted = static_cast<std::size_t>(length);
    const LockGuard guard(queue_.lock());
    if (queue_.has_waiter_locked()) {
        return EvdAnswer::kHasWaiter;
    }
    queue_.drain_locked();
    if (queue_.ring_locked().count() > wanted) {
        return EvdAnswer::kTooManyHeld;
    }
    return queue_.resize_locked(wanted) ? EvdAnswer::kDone : EvdAnswer::kNoMemory;
}

} // namespace sluice::dapl
