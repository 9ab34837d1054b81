// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/event_queue.hpp"

#include <algorithm>
#include <array>

#include "core/boundary.hpp"
#include "core/log.hpp"

namespace sluice::dapl {

EventQueue::EventQueue(const Object& owner, EventListener& listener, std::size_t length)
    : owner_(owner), listener_(listener), ring_(length), source_(owner.ia().device()),
      events_(owner.ia(), source_) {}

Result<void> EventQueue::open_completions(AsyncEventTarget& target) {
    const LockGuard guard(mutex_);
    if (Result<void> opened = source_.open(owner_.ia().device().context(), ring_.length(), target, *this);
        !opened) {
        return opened;
    }
    ring_.resize(ring_.length(), source_.capacity());
    return {};
}

void EventQueue::close() noexcept {
    source_.close(); // without the lock, which the loop's thread may wait for
    owner_.ia().loop().cancel(*this);
    while (ring_.count() > 0) {
        CompletionEvents::release(ring_.first());
        ring_.drop_first();
    }
}

bool EventQueue::post(const Event& event) noexcept {
    const LockGuard guard(mutex_);
    if (ring_.is_full()) {
        return false;
    }
    push_locked(event);
    return true;
}

void EventQueue::push_locked(const Event& event) noexcept {
    ring_.next() = event;
    push_next_locked();
}

void EventQueue::push_next_locked() noexcept {
    const Event& event = ring_.next();
    ring_.push();
    if (event.ring != nullptr) {
        ++event.ring->held;
        events_.check_held(*event.ring);
    }
    if (!event.is_quiet) {
        listener_.on_event_locked();
    }
}

bool EventQueue::read_next_locked(Event& event) noexcept {
    ibv_wc completion{};
    while (source_.poll(completion)) {
        if (events_.read(completion, event)) {
            return true;
        }
    }
    return false;
}

bool EventQueue::take_locked(const ibv_wc* completion, Event& event) noexcept {
    if (ring_.count() > 0) {
        take_first_locked([&event](const Event& first) { event = first; });
        return true;
    }
    if ((completion == nullptr || !events_.read(*completion, event)) && !read_next_locked(event)) {
        return false;
    }
    CompletionEvents::release(event);
    return true;
}

void EventQueue::queue_locked(const ibv_wc& completion) noexcept {
    read_locked(completion);
    drain_locked();
}

// Its event is written where it will be read.
void EventQueue::read_locked(const ibv_wc& completion) noexcept {
    if (!events_.read(completion, ring_.next())) {
        return;
    }
    if (discards_) {
        CompletionEvents::release(ring_.next());
    } else {
        push_next_locked();
    }
}

void EventQueue::drain_locked() noexcept {
    constexpr std::size_t kMost = 8;
    std::array<ibv_wc, kMost> completions;
    int there = 0;
    int most = 0;
    do {
        most = static_cast<int>(std::min(ring_.room(), kMost));
        there = most > 0 ? source_.poll(completions.data(), most) : 0;
        for (int i = 0; i < there; ++i) {
            read_locked(completions[static_cast<std::size_t>(i)]);
        }
    } while (there > 0 && there == most);
}

void EventQueue::discard() noexcept {
    const LockGuard guard(mutex_);
    discards_ = true;
    count_watcher_locked(false, true);
}

bool EventQueue::arm_locked() noexcept {
    return source_.arm(has_waiter_ || has_cno_, !has_waiter_);
}

int EventQueue::lend_channel_locked() noexcept {
    source_.serve(false);
    return source_.fd();
}

// The device doesn't say which completion was solicited; the last one that is there may be.
void EventQueue::take_notification_locked() noexcept {
    if (!source_.take_notification() || !source_.knows_solicited()) {
        return;
    }
    drain_locked();
    if (ring_.make_newest_notify()) {
        listener_.on_event_locked();
    }
}

void EventQueue::serve_locked() noexcept {
    if (!source_.is_open()) {
        return;
    }
    take_notification_locked();
    do {
        drain_locked();
    } while (arm_locked()); // completions that came before it was armed
}

void EventQueue::on_readable() noexcept {
    const LockGuard guard(mutex_);
    serve_locked();
}

// While endpoints complete here.
void EventQueue::look_again() noexcept {
    constexpr std::uint64_t kInterval = kNanosecondsPerSecond / 10;
    if (owner_.ia().device().solicited_notice().failures) {
        return;
    }
    const Result<void> done = at_boundary("dat times", [this]() -> Result<void> {
        owner_.ia().loop().wake_at(*this, now_ns() + kInterval);
        return {};
    });
    if (!done) {
        SLUICE_LOG(kWarning, "dat", "failures may go unnoticed: %s", done.error().text());
    }
}

// A program that polls finds failures by itself, and keeps the lock for itself.
void EventQueue::on_time() noexcept {
    if (is_polled_.exchange(false, std::memory_order_relaxed)) {
        look_again();
        return;
    }
    const LockGuard guard(mutex_);
    drain_locked();
    if (source_.joined() != nullptr) {
        look_again();
    }
}

bool EventQueue::resize_locked(std::size_t length) {
    if (length > ring_.length() && !source_.resize(length)) {
        return false;
    }
    ring_.resize(length, source_.capacity());
    return true;
}

bool EventQueue::join(DtoRing& ring, NotifyModel model, unsigned streams) noexcept {
    constexpr unsigned kTransfers = kDtoStream | kBindStream;
    const LockGuard guard(mutex_);
    const bool is_first = source_.joined() == nullptr;
    if ((model != NotifyModel::kEach && (streams & ~kTransfers) != 0) || !source_.join(ring, model)) {
        return false;
    }
    if (is_first) {
        look_again();
    }
    serve_locked();
    return true;
}

void EventQueue::leave(DtoRing& ring) noexcept {
    const LockGuard guard(mutex_);
    source_.leave(ring);
}

void EventQueue::count_watcher_locked(bool was_watcher, bool is_watcher) noexcept {
    source_.count_watcher(was_watcher, is_watcher);
    serve_locked();
}

void EventQueue::await_idle(DtoRing& ring, bool is_awaited) noexcept {
    const LockGuard guard(mutex_);
    count_watcher_locked(std::exchange(ring.waits_for_idle, is_awaited), is_awaited);
    events_.check_idle(ring);
}

Watermarks EventQueue::set_watermarks(DtoRing& ring, const Watermarks& watermarks) noexcept {
    const LockGuard guard(mutex_);
    const bool was_counted = std::exchange(ring.is_counted, watermarks.are_set());
    const Watermarks former = std::exchange(ring.watermarks, watermarks);
    count_watcher_locked(was_counted, ring.is_counted);
    events_.check_held(ring);
    return former;
}

void EventQueue::check_held(DtoRing& ring) noexcept {
    const LockGuard guard(mutex_);
    events_.check_held(ring);
}

std::uint32_t EventQueue::held(const DtoRing& ring) noexcept {
    const LockGuard guard(mutex_);
    return ring.held;
}

void EventQueue::collect() noexcept {
    const LockGuard guard(mutex_);
    drain_locked();
}

void EventQueue::forget(const void* endpoint, DtoRing& ring) noexcept {
    bool is_lost = false;
    {
        const LockGuard guard(mutex_);
        Event event;
        while (read_next_locked(event)) {
            if (event.object == endpoint) {
                CompletionEvents::release(event);
            } else if (ring_.room() > 0) {
                push_locked(event);
            } else {
                CompletionEvents::release(event);
                is_lost = true;
            }
        }
        ring_.forget(endpoint);
        ring.report = {};
        ring.held = 0;
        count_watcher_locked(std::exchange(ring.waits_for_idle, false), false);
    }
    if (is_lost) {
        owner_.ia().report_overflow(owner_);
    }
}

RingReport EventQueue::take_report(DtoRing& ring) noexcept {
    const LockGuard guard(mutex_);
    return std::exchange(ring.report, {});
}

void EventQueue::report_overrun() noexcept {
    const LockGuard guard(mutex_);
    for (DtoRing* each = source_.joined(); each != nullptr; each = each->next_joined) {
        events_.report_overrun(*each);
    }
}

} // namespace sluice::dapl
