// SPDX-License-Identifier: BSD-3-Clause
//
// How events come into a dispatcher: posted ones, and completions, which become events when they are read.
// The queue owns the ring of events and the completion source, and the dispatcher's one lock, which is biased
// to the thread that polls (ADR 6). Methods that end in _locked are called with that lock; the others may be
// called from any thread. The loop's thread serves the channel while no waiter sleeps on it, and where the
// device doesn't notify of failures, it reads the completions now and then, unless the program polls.
#pragma once

#include "core/biased_lock.hpp"
#include "core/sync.hpp"
#include "udapl/provider/completion_events.hpp"
#include "udapl/provider/completion_source.hpp"
#include "udapl/provider/event_ring.hpp"

namespace sluice::dapl {

// What hears of the queue's events.
class EventListener {
  public:
    // An event that notifies was queued. With the queue's lock.
    virtual void on_event_locked() noexcept = 0;

  protected:
    ~EventListener() = default;
};

class EventQueue final : private DescriptorHandler, private Timer {
  public:
    // OWNER is the dispatcher, LISTENER too.
    EventQueue(const Object& owner, EventListener& listener, std::size_t length);
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;
    // TARGET gets the completion queue's asynchronous event. At most once.
    Result<void> open_completions(AsyncEventTarget& target);
    // The loop's thread doesn't come here any more, and what is queued is dropped. Before the listener ends.
    void close() noexcept SLUICE_TSA(no_thread_safety_analysis); // by then no other thread comes here

    BiasedLock<Mutex>& lock() noexcept SLUICE_TSA(lock_returned(mutex_)) { return mutex_; }
    // The program looks by itself.
    void note_poll() noexcept { is_polled_.store(true, std::memory_order_relaxed); }

    // False: it is full, and nothing was changed.
    bool post(const Event& event) noexcept;
    // The next completion, which nothing has read yet. False: there is none, or something else comes first.
    bool poll_first_locked(ibv_wc& completion) const noexcept SLUICE_TSA(requires_capability(mutex_)) {
        return ring_.count() == 0 && !has_waiter_ && source_.poll(completion);
    }
    // Calls TAKE with the first event of the ring, which has one, and drops it.
    template<typename Take>
    void take_first_locked(Take&& take) noexcept SLUICE_TSA(requires_capability(mutex_));
    // The next event; COMPLETION was polled already, unless it is null. False: there is none.
    bool take_locked(const ibv_wc* completion, Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    // Queues COMPLETION, which was polled, and those behind it.
    void queue_locked(const ibv_wc& completion) noexcept SLUICE_TSA(requires_capability(mutex_));
    // Queues the completions that are there, as far as there is room.
    void drain_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // Queues the completions that are there, and arms for what is needed next.
    void serve_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    const EventRing& ring_locked() const noexcept SLUICE_TSA(requires_capability(mutex_)) { return ring_; }
    const CompletionSource& source_locked() const noexcept SLUICE_TSA(requires_capability(mutex_)) {
        return source_;
    }
    // kNoMemory of the device as false. What is queued fits.
    bool resize_locked(std::size_t length) SLUICE_TSA(requires_capability(mutex_));

    // Which events must notify at once: a waiter's, or a CNO's.
    bool has_waiter_locked() const noexcept SLUICE_TSA(requires_capability(mutex_)) { return has_waiter_; }
    void set_waiter_locked(bool has_waiter) noexcept SLUICE_TSA(requires_capability(mutex_)) {
        has_waiter_ = has_waiter;
    }
    void set_cno_locked(bool has_cno) noexcept SLUICE_TSA(requires_capability(mutex_)) { has_cno_ = has_cno; }
    // False: it is armed already, or there are no completions.
    bool arm_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // The waiter sleeps on the channel, and the loop doesn't serve it until it is armed without a waiter; -1:
    // there is none.
    int lend_channel_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // How many transfers have ended that were to make no event.
    std::uint32_t silent_locked() const noexcept SLUICE_TSA(requires_capability(mutex_)) {
        return events_.silent();
    }
    void take_notification_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    // Completions come to nobody's program: their buffers go back. For good.
    void discard() noexcept;

    // For endpoints. RING's records complete here, by MODEL. All of them have the same model; false: others
    // have another one, or other streams of STREAMS need each event to notify.
    bool join(DtoRing& ring, NotifyModel model, unsigned streams) noexcept;
    void leave(DtoRing& ring) noexcept;
    // Records come free, and what is posted later comes after what is there.
    void collect() noexcept;
    // ENDPOINT's records are about to go, and nothing of them completes any more.
    void forget(const void* endpoint, DtoRing& ring) noexcept;
    // Whether RING's endpoint gets a report when nothing of RING is on its way any more; at once, if that is
    // so.
    void await_idle(DtoRing& ring, bool is_awaited) noexcept;
    // RING's endpoint gets a report when RING holds more; at once, if that is so. Gives what was there
    // before.
    Watermarks set_watermarks(DtoRing& ring, const Watermarks& watermarks) noexcept;
    // Reports once more if RING holds more.
    void check_held(DtoRing& ring) noexcept;
    std::uint32_t held(const DtoRing& ring) noexcept;
    // Takes RING's report.
    RingReport take_report(DtoRing& ring) noexcept;
    // The device has lost completions: every endpoint gets a report.
    void report_overrun() noexcept;
    // For making queue pairs; null: there are no completions.
    ibv_cq* completion_queue() const noexcept SLUICE_TSA(no_thread_safety_analysis) {
        return source_.queue() != nullptr ? source_.queue()->get()
                                          : nullptr; // opened once, before it is known
    }

  private:
    void on_readable() noexcept override;
    void on_time() noexcept override;
    void look_again() noexcept;
    bool read_next_locked(Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    // EVENT, or what stands in the ring's next slot. There is room.
    void push_locked(const Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    void push_next_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // COMPLETION, for which there is room, becomes an event, or is none.
    void read_locked(const ibv_wc& completion) noexcept SLUICE_TSA(requires_capability(mutex_));
    void count_watcher_locked(bool was_watcher, bool is_watcher) noexcept
        SLUICE_TSA(requires_capability(mutex_));

    const Object& owner_;
    EventListener& listener_;
    std::atomic<bool> is_polled_{false}; // by the program, since on_time() looked

    BiasedLock<Mutex> mutex_;
    EventRing ring_ SLUICE_TSA(guarded_by(mutex_));
    bool has_waiter_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool has_cno_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool discards_ SLUICE_TSA(guarded_by(mutex_)) = false;
    CompletionSource source_ SLUICE_TSA(guarded_by(mutex_));
    CompletionEvents events_ SLUICE_TSA(guarded_by(mutex_));
};

template<typename Take>
void EventQueue::take_first_locked(Take&& take) noexcept {
    const Event& first = ring_.first();
    if (first.ring != nullptr) {
        --first.ring->held;
    }
    CompletionEvents::release(first);
    take(first);
    ring_.drop_first();
}

} // namespace sluice::dapl
