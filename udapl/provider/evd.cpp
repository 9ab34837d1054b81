// SPDX-License-Identifier: BSD-3-Clause
//
// The queue of events. Completions are in evd_completions.cpp, waiting is in evd_wait.cpp.
#include "udapl/provider/evd.hpp"

#include <sys/eventfd.h>

#include <cerrno>

#include "udapl/provider/ia.hpp"
#include "udapl/provider/srq.hpp"

namespace sluice::dapl {

Evd::Evd(Ia& ia, int length, unsigned streams, Descriptor wake)
    : Object(&ia), streams_(streams), wake_(std::move(wake)), length_(static_cast<std::size_t>(length)),
      ring_(length_) {}

Result<std::unique_ptr<Evd>> Evd::make(Ia& ia, int length, unsigned streams, Held<Cno> cno) {
    Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.get() < 0) {
        return Error::from_errno(errno, "making a descriptor to wait on");
    }
    auto evd = std::unique_ptr<Evd>(new Evd(ia, length, streams, std::move(wake)));
    if ((streams & (kDtoStream | kBindStream)) != 0) {
        if (Result<void> added = evd->add_completions(ia.device().context()); !added) {
            return std::move(added).error();
        }
    }
    evd->set_cno(std::move(cno));
    return evd;
}

Evd::~Evd() {
    if (channel_) {
        ia().loop().remove(channel_->fd(), *this);
    }
    ia().loop().cancel(*this);
    set_cno({});
    if (completions_) {
        completions_->acknowledge(unacknowledged_); // it waits for that
    }
}

void Evd::abandon() noexcept {
    const LockGuard guard(mutex_);
    is_abandoned_ = true;
    wake_locked();
}

int Evd::length() noexcept {
    const LockGuard guard(mutex_);
    return static_cast<int>(length_);
}

bool Evd::is_waitable() noexcept {
    const LockGuard guard(mutex_);
    return is_waitable_;
}

bool Evd::is_enabled() noexcept {
    const LockGuard guard(mutex_);
    return is_enabled_;
}

bool Evd::has_waiter() noexcept {
    const LockGuard guard(mutex_);
    return is_waiting_;
}

EvdModel Evd::model() noexcept {
    const LockGuard guard(mutex_);
    return model_;
}

void* Evd::cno_handle() noexcept {
    const LockGuard guard(mutex_);
    return cno_.handle();
}

void Evd::set_waitable(bool is_waitable) noexcept {
    const LockGuard guard(mutex_);
    is_waitable_ = is_waitable;
    wake_locked();
}

// What is there already has been delivered: it is taken before somebody can be told of it.
void Evd::enable(bool is_enabled) noexcept {
    const LockGuard guard(mutex_);
    drain_locked();
    is_enabled_ = is_enabled;
    serve_locked();
}

void Evd::set_cno(Held<Cno> cno) noexcept {
    Held<Cno> former; // let go without the lock
    const LockGuard guard(mutex_);
    drain_locked();
    if (cno_) {
        cno_->detach(trigger_);
    }
    former = std::exchange(cno_, std::move(cno));
    if (cno_) {
        cno_->attach();
        serve_locked();
    }
}

void Evd::wake_locked() noexcept {
    if (is_asleep_ && !is_woken_) {
        is_woken_ = true;
        (void)eventfd_write(wake_.get(), 1);
    }
}

// An event that counts has come: to who waits, or else to the CNO.
void Evd::notify_locked() noexcept {
    ++notifying_;
    if (is_waiting_) {
        wake_locked();
    } else if (cno_ && is_enabled_) {
        cno_->trigger(trigger_, handle());
    }
}

void Evd::push_locked(const Event& event) noexcept {
    ring_[(first_ + count_++) % ring_.size()] = event;
    if (event.ring != nullptr) {
        ++event.ring->held;
        check_held_locked(*event.ring, event.object);
    }
    if (!event.is_quiet) {
        notify_locked();
    }
}

// The program has the event, or never will: a shared buffer isn't outstanding any more.
void Evd::reap(const Event& event) noexcept {
    if (event.kind != EventKind::kDto || event.source == nullptr) {
        return;
    }
    if (const Result<Pin<Srq>> srq = handles().get<Srq>(event.source)) {
        (*srq)->reap();
    }
}

Event Evd::take_locked() noexcept {
    const Event event = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    notifying_ -= event.is_quiet ? 0 : 1;
    if (event.ring != nullptr) {
        --event.ring->held;
    }
    reap(event);
    return event;
}

EvdAnswer Evd::post(const Event& event) noexcept {
    const LockGuard guard(mutex_);
    if (count_ >= length_) {
        return EvdAnswer::kFull;
    }
    push_locked(event);
    return EvdAnswer::kDone;
}

EvdAnswer Evd::resize(int length) {
    const auto wanted = static_cast<std::size_t>(length);
    const LockGuard guard(mutex_);
    if (is_waiting_) {
        return EvdAnswer::kHasWaiter;
    }
    drain_locked();
    if (count_ > wanted) {
        return EvdAnswer::kTooManyHeld;
    }
    if (completions_ && wanted > length_) {
        if (const Result<void> resized = completions_->resize(length); !resized) {
            return EvdAnswer::kNoMemory;
        }
    }
    std::vector<Event> ring(wanted + (completions_ ? static_cast<std::size_t>(completions_->entries()) : 0));
    for (std::size_t i = 0; i < count_; ++i) {
        ring[i] = ring_[(first_ + i) % ring_.size()];
    }
    ring_.swap(ring);
    length_ = wanted;
    first_ = 0;
    return EvdAnswer::kDone;
}

} // namespace sluice::dapl
