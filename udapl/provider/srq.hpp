// SPDX-License-Identifier: BSD-3-Clause
//
// Shared receive queues: buffers for the messages of several endpoints, taken in the order of posting. The
// queue owns the device's queue, its size and its low watermark; what completions need of it is in the base.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <optional>

#include "ibverbs-glue/queue_pair.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/provider/memory.hpp"
#include "udapl/provider/segments.hpp"
#include "udapl/provider/shared_receives.hpp"

namespace sluice::dapl {

struct SrqOptions {
    std::uint32_t max_receives = 0;
    std::uint32_t max_segments = 0;
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
    kNoResources,  // the device's, or memory; the log says which
    kAboveMaximum, // more than the queue holds
};

class Srq final : public SharedReceives, private AsyncEventTarget {
  public:
    // OPTIONS become what the device gave.
    static Result<std::unique_ptr<Srq>> make(IaContext& ia, Ref<Pz> pz, SrqOptions& options);

    Pz& pz() const noexcept { return *pz_; }
    std::uint32_t max_segments() const noexcept { return max_segments_; }
    const glue::SharedReceiveQueue& queue() const noexcept { return *queue_; }
    bool is_broken() const noexcept { return is_broken_; }

    EpAnswer post(Segments segments, std::uint64_t cookie) noexcept;
    // Looks at what has arrived, first.
    SrqCounts counts() noexcept;
    SrqAnswer resize(std::uint32_t max_receives);
    // One event, as soon as fewer buffers are available, maybe now.
    SrqAnswer set_low_watermark(std::uint32_t mark) noexcept;

  private:
    Srq(IaContext& ia, Ref<Pz> pz) noexcept : SharedReceives(ia), pz_(std::move(pz)) {}
    Result<void> make_queue(SrqOptions& options);
    std::uint32_t kept_segments() const noexcept;
    void collect() noexcept;
    void on_async_event(ibv_event_type type) noexcept override;

    const Ref<Pz> pz_;
    std::uint32_t max_segments_ = 0;
    std::uint32_t device_size_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::atomic<bool> is_broken_{false};
    SpinLock post_lock_;
    std::optional<glue::SharedReceiveQueue> queue_; // the first to go: it may still have events
};

} // namespace sluice::dapl
