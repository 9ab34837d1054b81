// SPDX-License-Identifier: BSD-3-Clause
//
// Event dispatchers: a queue of events, and at most one thread that waits for them.
//
// A waiter sleeps in ppoll() on a descriptor, so that a signal ends its wait. Who puts an event in
// writes to the descriptor only while somebody sleeps. Otherwise the event triggers the CNO, if there is one.
//
// A dispatcher that takes completions has a completion queue with a channel. Who waits sleeps on the channel,
// too; the loop looks after it while nobody does, and somebody wants to know. The queue is armed for every
// completion while somebody wants to know of each, and for failures always, so that an endpoint breaks though
// nobody looks. Devices that don't tell of failures alone are looked at now and then, unless the program
// does. What a completion means for its endpoint is told by the loop's thread, where no lock is held.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/biased_lock.hpp"
#include "core/descriptor.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/completion.hpp"
#include "udapl/provider/cno.hpp"
#include "udapl/provider/dto.hpp"
#include "udapl/provider/event.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

// What becomes of a call; the first is success.
enum class EvdAnswer {
    kDone,
    kEmpty,
    kFull,
    kTimedOut,
    kInterrupted,
    kAborted,     // the dispatcher is being destroyed
    kHasWaiter,   // another thread has it for itself
    kUnwaitable,  // or became so
    kTooManyHeld, // more events are queued than would fit
    kBadThreshold,
    kNoThreshold, // only where every event notifies one may wait for more than one
    kNoMemory,
};

// Bits, DAT's own in each of its versions.
constexpr unsigned kSoftwareStream = 0x001;
constexpr unsigned kRequestStream = 0x010;
constexpr unsigned kDtoStream = 0x020;
constexpr unsigned kConnectionStream = 0x040;
constexpr unsigned kBindStream = 0x080;
constexpr unsigned kAsyncStream = 0x100;
constexpr unsigned kEveryStream = 0x1f1;

constexpr int kMaxEvdLength = 1 << 20;

// Which completions notify; those that failed always do.
enum class EvdModel : std::uint8_t {
    kEach,
    kUnlessQuiet, // all but those that were posted so
    kSolicited,   // those that the peer wants noticed
};

class Evd final : public Object, private Watched, private Task {
  public:
    static constexpr HandleKind kHandleKind = kEvd;
    static constexpr bool kIsHot = true;

    static Result<std::unique_ptr<Evd>> make(Ia& ia, int length, unsigned streams, Held<Cno> cno = {});
    ~Evd() override;
    void abandon() noexcept override;

    unsigned streams() const noexcept { return streams_; }
    int length() noexcept;
    bool is_waitable() noexcept;
    bool is_enabled() noexcept;
    bool has_waiter() noexcept;
    EvdModel model() noexcept;
    void* cno_handle() noexcept;

    // kFull: nothing was changed, and nobody told.
    EvdAnswer post(const Event& event) noexcept;
    // TELL is called with the event, for kDone.
    template<typename Tell>
    EvdAnswer dequeue(Tell&& tell) noexcept;
    // TELL as before. LEFT is written for kDone and kTimedOut.
    template<typename Tell>
    EvdAnswer wait(std::uint32_t timeout_us, int threshold, Tell&& tell, int& left) noexcept;
    EvdAnswer resize(int length);
    void set_waitable(bool is_waitable) noexcept;
    // Whether events trigger the CNO.
    void enable(bool is_enabled) noexcept;
    void set_cno(Held<Cno> cno) noexcept;

    // For endpoints, whose completions come here.
    //
    // All of them have the same model; false: others have another, or other streams need each to notify.
    bool join(EvdModel model) noexcept;
    void leave() noexcept;
    // Their records come free, and what is posted later comes after what is there.
    void collect() noexcept;
    // ENDPOINT's records are about to go, and nothing of them completes any more.
    void forget(const void* endpoint, DtoRing& ring) noexcept;
    // Whether ENDPOINT shall be told when nothing of RING is on its way any more; at once, if that is so.
    void await_idle(DtoRing& ring, void* endpoint, bool is_awaited) noexcept;
    // ENDPOINT is told when RING holds more; at once, if that is so.
    void set_watermarks(DtoRing& ring, void* endpoint, const Watermarks& watermarks) noexcept;
    std::uint32_t held(const DtoRing& ring) noexcept;
    const glue::CompletionQueue* completions() const noexcept {
        return completions_ ? &*completions_ : nullptr;
    }
    // The device has lost completions.
    void on_overrun() noexcept;

  private:
    enum class Armed : std::uint8_t { kNot, kForFailures, kForEach };

    Evd(Ia& ia, int length, unsigned streams, Descriptor wake);
    Result<void> add_completions(const glue::Context& context);
    void on_readable() noexcept override;
    void on_time() noexcept override;
    void run() noexcept override;

    // The next completion as an event; false: there is none.
    bool poll_locked(Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    bool finish_locked(const ibv_wc& completion, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    // Where COMPLETION was taken already, unless it is null.
    EvdAnswer dequeue_other_locked(const ibv_wc* completion, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    bool describe_locked(const Dto& dto, DtoStatus status, bool is_receive, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    bool finish_shared_locked(Dto& record, const ibv_wc& completion, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    void drain_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // Takes what the channel tells and what is there, and arms the queue.
    void serve_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void take_notification_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    bool arm_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // Whether the loop looks after the channel.
    void watch_channel_locked(bool is_watched) noexcept SLUICE_TSA(requires_capability(mutex_));
    bool knows_solicited_locked() const noexcept SLUICE_TSA(requires_capability(mutex_));
    void note_locked(const Dto& dto, DtoStatus status) noexcept SLUICE_TSA(requires_capability(mutex_));
    void list_locked(DtoRing& ring, void* endpoint, std::uint32_t connection) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    void unlist_locked(DtoRing& ring) noexcept SLUICE_TSA(requires_capability(mutex_));
    void check_held_locked(DtoRing& ring, void* endpoint) noexcept SLUICE_TSA(requires_capability(mutex_));
    void check_idle_locked(DtoRing& ring, void* endpoint) noexcept SLUICE_TSA(requires_capability(mutex_));
    void look_again() noexcept;
    void watch_locked(bool was_watched, bool is_watched) noexcept SLUICE_TSA(requires_capability(mutex_));

    void push_locked(const Event& event) noexcept SLUICE_TSA(requires_capability(mutex_));
    static void reap(const Event& event) noexcept;
    Event take_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void notify_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void wake_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    // COMPLETION was taken, for who waits; how many events there are then.
    int queue_locked(const ibv_wc& completion) noexcept SLUICE_TSA(requires_capability(mutex_));
    EvdAnswer wait_longer(std::uint32_t timeout_us, int threshold, Event& event, int& left) noexcept;
    EvdAnswer begin_wait_locked(int threshold) noexcept SLUICE_TSA(requires_capability(mutex_));
    bool take_awaited_locked(std::size_t threshold, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    std::optional<EvdAnswer> end_of_wait_locked(std::size_t threshold, Event& event) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    int end_wait_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void fall_asleep_locked() noexcept SLUICE_TSA(requires_capability(mutex_));
    void wake_up_locked(bool is_notified) noexcept SLUICE_TSA(requires_capability(mutex_));
    EvdAnswer sleep(std::uint64_t deadline, std::size_t threshold, Event& event, int& left) noexcept;

    const unsigned streams_;
    const Descriptor wake_;
    std::atomic<bool> is_polled_{false}; // by the program, since on_time() looked

    BiasedLock<Mutex> mutex_;
    // Longer than LENGTH_, so that completions find room when an endpoint goes.
    std::size_t length_ SLUICE_TSA(guarded_by(mutex_));
    std::vector<Event> ring_ SLUICE_TSA(guarded_by(mutex_));
    std::size_t first_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::size_t count_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::size_t notifying_ SLUICE_TSA(guarded_by(mutex_)) = 0; // of these
    bool is_waiting_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool is_asleep_ SLUICE_TSA(guarded_by(mutex_)) = false; // who waits, or about to be
    bool is_woken_ SLUICE_TSA(guarded_by(mutex_)) = false;  // by what is to be read from WAKE_
    bool is_waitable_ SLUICE_TSA(guarded_by(mutex_)) = true;
    bool is_enabled_ SLUICE_TSA(guarded_by(mutex_)) = true;
    bool is_abandoned_ SLUICE_TSA(guarded_by(mutex_)) = false;
    Held<Cno> cno_ SLUICE_TSA(guarded_by(mutex_));
    Trigger trigger_ SLUICE_TSA(guarded_by(mutex_)); // what is in it, by the CNO's lock
    EvdModel model_ SLUICE_TSA(guarded_by(mutex_)) = EvdModel::kEach;
    std::uint32_t joined_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::uint32_t watchers_ SLUICE_TSA(guarded_by(mutex_)) = 0; // endpoints that wait for each completion
    Armed armed_ SLUICE_TSA(guarded_by(mutex_)) = Armed::kNot;
    bool is_watched_ SLUICE_TSA(guarded_by(mutex_)) = true;           // the channel, by the loop
    std::uint32_t unacknowledged_ SLUICE_TSA(guarded_by(mutex_)) = 0; // notifications
    DtoRing* unsettled_ SLUICE_TSA(guarded_by(mutex_)) = nullptr;     // linked by what they have to tell

    // The last, so that they go first: until then the device may have something to tell. The
    // channel is before what uses it.
    std::optional<glue::CompletionChannel> channel_;
    std::optional<glue::CompletionQueue> completions_;
};

// Nearly every completion is a plain one, and nothing waits before it: that is told from where it lies.
template<typename Tell>
EvdAnswer Evd::dequeue(Tell&& tell) noexcept {
    is_polled_.store(true, std::memory_order_relaxed);
    const LockGuard guard(mutex_);
    ibv_wc completion;
    const bool is_taken =
        count_ == 0 && !is_waiting_ && completions_ && completions_->poll(&completion, 1) == 1;
    if (is_taken && is_plain(completion)) [[likely]] {
        tell_plain(completion, tell);
        return EvdAnswer::kDone;
    }
    Event other;
    const EvdAnswer answer = dequeue_other_locked(is_taken ? &completion : nullptr, other);
    if (answer == EvdAnswer::kDone) {
        tell(std::as_const(other));
    }
    return answer;
}

// The same for the only event that is waited for.
template<typename Tell>
EvdAnswer Evd::wait(std::uint32_t timeout_us, int threshold, Tell&& tell, int& left) noexcept {
    is_polled_.store(true, std::memory_order_relaxed);
    {
        const LockGuard guard(mutex_);
        const bool is_usual =
            threshold == 1 && count_ == 0 && !is_waiting_ && is_waitable_ && model_ == EvdModel::kEach;
        ibv_wc completion;
        if (is_usual && !is_abandoned_ && completions_ && completions_->poll(&completion, 1) == 1) {
            if (is_plain(completion)) [[likely]] {
                tell_plain(completion, tell);
                left = completions_->poll(&completion, 1) == 1 ? queue_locked(completion) : 0;
                return EvdAnswer::kDone;
            }
            queue_locked(completion);
        }
    }
    Event other;
    const EvdAnswer answer = wait_longer(timeout_us, threshold, other, left);
    if (answer == EvdAnswer::kDone) {
        tell(std::as_const(other));
    }
    return answer;
}

} // namespace sluice::dapl
