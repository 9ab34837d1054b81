// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues: buffers for the messages of several endpoints, taken in the order of posting.
//
// A buffer is available until a message takes it, which shows when its completion is seen, and outstanding
// until the program has the event. Which endpoint took it, the completion tells by its queue pair.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <optional>
#include <vector>

#include "ibverbs-glue/queue_pair.hpp"
#include "udapl/provider/dto.hpp"
#include "udapl/provider/loop.hpp"
#include "udapl/provider/memory.hpp"

namespace sluice::dapl {

class Evd;
enum class EpAnswer;

struct SrqOptions {
    std::uint32_t max_receives = 0;
    std::uint32_t max_parts = 0;
};

struct SrqCounts {
    std::uint32_t max_receives;
    std::uint32_t available;
    std::uint32_t outstanding;
    std::uint32_t low_watermark; // 0: none
};

enum class SrqAnswer {
    kDone,
    kTooManyHeld,  // more buffers are outstanding than would fit
    kBelowMark,    // the low watermark doesn't fit
    kNoResources,  // the device's, or memory; the log tells
    kAboveMaximum, // more than the queue holds
};

class Srq final : public Object, private Task {
  public:
    static constexpr HandleKind kHandleKind = kSrq;
    static constexpr bool kIsHot = true;

    // OPTIONS become what the device gave.
    static Result<std::unique_ptr<Srq>> make(Ia& ia, Held<Pz> pz, SrqOptions& options);
    ~Srq() override;

    Pz& pz() const noexcept { return *pz_; }
    std::uint32_t max_parts() const noexcept { return max_parts_; }
    const glue::SharedReceiveQueue& queue() const noexcept { return *queue_; }

    EpAnswer post(Parts parts, std::uint64_t cookie) noexcept;
    // Looks at what has arrived, first.
    SrqCounts counts() noexcept;
    SrqAnswer resize(std::uint32_t max_receives);
    // One event, as soon as fewer buffers are available, maybe now.
    SrqAnswer set_low_watermark(std::uint32_t mark) noexcept;

    // An endpoint that takes from here through queue pair NUMBER; its completions come to EVD, and
    // RING counts them.
    struct Seat {
        const Object* endpoint;
        std::uint32_t number;
        Evd* evd;
        DtoRing* ring;
    };
    // In place of one that it has already.
    void attach(const Seat& seat);
    // None of its completions comes any more.
    void detach(const Object& endpoint) noexcept;

    // RECORD's buffer was taken through that queue pair. Gives what it was, and whose: nobody's, if the
    // endpoint has gone.
    Dto finish(Dto& record, std::uint32_t number) noexcept;
    // The program has the event of a buffer, or will never get it.
    void reap() noexcept { outstanding_.fetch_sub(1, std::memory_order_relaxed); }
    // Few buffers are left; from any thread, whatever it has locked.
    void tell_low() noexcept;
    // For the loop's thread.
    void on_device_error() noexcept;
    bool is_broken() const noexcept { return is_broken_; }

  private:
    Srq(Ia& ia, Held<Pz> pz) noexcept : Object(&ia), pz_(std::move(pz)) {}
    Result<void> make_queue(SrqOptions& options);
    std::uint32_t kept_parts() const noexcept;
    std::uint32_t available() const noexcept {
        return posted_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_relaxed);
    }
    void collect() noexcept;
    void run() noexcept override;

    const Held<Pz> pz_;
    std::uint32_t max_parts_ = 0;
    std::uint32_t device_size_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    DtoPool pool_;
    std::optional<glue::SharedReceiveQueue> queue_;

    std::atomic<std::uint32_t> max_receives_{0};
    std::atomic<std::uint32_t> posted_{0};
    std::atomic<std::uint32_t> taken_{0};
    std::atomic<std::uint32_t> outstanding_{0};
    std::atomic<std::uint32_t> low_watermark_{0};
    std::atomic<bool> is_armed_{false};  // who clears it tells
    std::atomic<std::uint32_t> lows_{0}; // which the loop's thread has to tell
    std::atomic<bool> is_broken_{false};

    Mutex mutex_; // sizes, and who comes and goes; before the dispatchers'
    SpinLock post_lock_;
    SpinLock seats_lock_;
    std::vector<Seat> seats_ SLUICE_TSA(guarded_by(seats_lock_)); // changed with both locks
};

} // namespace sluice::dapl
