// SPDX-License-Identifier: BSD-3-Clause
//
// Event dispatchers: how the program gets the events of an EventQueue. At most one thread waits for them;
// while none does, they trigger the CNO, if there is one. The dispatcher owns the queue, the waiter and the
// link to the CNO. The program's threads call it, and every thread that posts an event; the queue's lock
// guards everything here.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <memory>
#include <optional>

#include "udapl/provider/cno.hpp"
#include "udapl/provider/event_queue.hpp"
#include "udapl/provider/sleeper.hpp"

namespace sluice::dapl {

// The answer to a call; the first is success.
enum class EvdAnswer {
    kDone,
    kEmpty,
    kFull,
    kTimedOut,
    kInterrupted,
    kAborted,     // the dispatcher is being destroyed
    kHasWaiter,   // another thread waits
    kUnwaitable,  // or became so
    kTooManyHeld, // more events are queued than would fit
    kBadThreshold,
    kNoThreshold, // above one only where every event notifies
    kNoMemory,
};

constexpr int kMaxEvdLength = 1 << 20;

// The answer to a query, of one moment.
struct EvdView {
    int length;
    bool is_waitable;
    bool is_enabled;
    NotifyModel model;
    void* cno;
};

class Evd final : public EventSink, private EventListener, private AsyncEventTarget {
  public:
    static constexpr HandleKind kHandleKind = kEvd;
    static constexpr bool kIsHot = true;

    static Result<std::unique_ptr<Evd>> make(IaContext& ia, int length, unsigned streams, Ref<Cno> cno = {});
    ~Evd() override;
    void abandon() noexcept override;

    unsigned streams() const noexcept { return streams_; }
    EventQueue& queue() noexcept { return queue_; }
    EvdView view() noexcept;
    bool has_waiter() noexcept;

    // kFull: nothing was changed, and no thread woken.
    EvdAnswer post(const Event& event) noexcept {
        return queue_.post(event) ? EvdAnswer::kDone : EvdAnswer::kFull;
    }
    bool take(const Event& event) noexcept override { return queue_.post(event); }
    // TAKE is called with the event, for kDone.
    template<typename Take>
    EvdAnswer dequeue(Take&& take) noexcept;
    // TAKE as before. LEFT is written for kDone and kTimedOut. A thread that is cancelled while it sleeps is
    // the waiter no more, and takes no event.
    template<typename Take>
    EvdAnswer wait(std::uint32_t timeout_us, int threshold, Take&& take, int& left);
    EvdAnswer resize(int length);
    void set_waitable(bool is_waitable) noexcept;
    // Whether events trigger the CNO.
    void enable(bool is_enabled) noexcept;
    void set_cno(Ref<Cno> cno) noexcept;

  private:
    Evd(IaContext& ia, int length, unsigned streams, Sleeper sleeper);
    void on_event_locked() noexcept override SLUICE_TSA(no_thread_safety_analysis); // the queue has locked
    void on_async_event(ibv_event_type type) noexcept override;

    EvdAnswer dequeue_other_locked(const ibv_wc* completion, Event& event) noexcept
        SLUICE_TSA(requires_capability(queue_.lock()));
    // COMPLETION was taken for a waiter; how many events there are then.
    int queue_locked(const ibv_wc& completion) noexcept SLUICE_TSA(requires_capability(queue_.lock()));
    EvdAnswer wait_longer(std::uint32_t timeout_us, int threshold, Event& event, int& left);
    EvdAnswer begin_wait_locked(int threshold) noexcept SLUICE_TSA(requires_capability(queue_.lock()));
    std::optional<EvdAnswer> end_of_wait_locked(std::size_t threshold, Event& event) noexcept
        SLUICE_TSA(requires_capability(queue_.lock()));
    int end_wait_locked() noexcept SLUICE_TSA(requires_capability(queue_.lock()));
    void look_at_threshold(std::size_t threshold, std::uint32_t silent_before) noexcept;
    int fall_asleep_locked() noexcept SLUICE_TSA(requires_capability(queue_.lock()));
    EvdAnswer sleep(std::uint64_t deadline, int channel, std::size_t threshold, Event& event,
                    int& left) SLUICE_TSA(no_thread_safety_analysis); // but for the sleep itself
    void give_up_wait() noexcept;

    const unsigned streams_;
    EventQueue queue_;
    Sleeper sleeper_ SLUICE_TSA(guarded_by(queue_.lock()));
    bool is_waitable_ SLUICE_TSA(guarded_by(queue_.lock())) = true;
    bool is_dismissed_ SLUICE_TSA(guarded_by(queue_.lock())) = false; // the waiter, who may not know yet
    bool is_abandoned_ SLUICE_TSA(guarded_by(queue_.lock())) = false;
    CnoLink cno_ SLUICE_TSA(guarded_by(queue_.lock()));
};

// Nearly every completion is a plain one, and nothing waits before it: its event is written from its record.
template<typename Take>
EvdAnswer Evd::dequeue(Take&& take) noexcept {
    queue_.note_poll();
    const LockGuard guard(queue_.lock());
    ibv_wc completion;
    const bool is_taken = queue_.poll_first_locked(completion);
    if (is_taken && is_plain(completion)) [[likely]] {
        take_plain(completion, take);
        return EvdAnswer::kDone;
    }
    Event other;
    const EvdAnswer answer = dequeue_other_locked(is_taken ? &completion : nullptr, other);
    if (answer == EvdAnswer::kDone) {
        take(std::as_const(other));
    }
    return answer;
}

// The same for the only event that is waited for.
template<typename Take>
EvdAnswer Evd::wait(std::uint32_t timeout_us, int threshold, Take&& take, int& left) {
    queue_.note_poll();
    {
        const LockGuard guard(queue_.lock());
        const bool is_usual = threshold == 1 && is_waitable_ && !is_abandoned_ &&
                              queue_.source_locked().model() == NotifyModel::kEach;
        ibv_wc completion;
        if (is_usual && queue_.poll_first_locked(completion)) {
            if (is_plain(completion)) [[likely]] {
                take_plain(completion, take);
                left = queue_.source_locked().poll(completion) ? queue_locked(completion) : 0;
                return EvdAnswer::kDone;
            }
            queue_locked(completion);
        }
        if (is_usual && queue_.ring_locked().notifying() > 0 && !queue_.has_waiter_locked()) {
            queue_.take_first_locked(take);
            left = queue_.source_locked().poll(completion) ? queue_locked(completion)
                                                           : static_cast<int>(queue_.ring_locked().count());
            return EvdAnswer::kDone;
        }
    }
    Event other;
    const EvdAnswer answer = wait_longer(timeout_us, threshold, other, left);
    if (answer == EvdAnswer::kDone) {
        take(std::as_const(other));
    }
    return answer;
}

} // namespace sluice::dapl
