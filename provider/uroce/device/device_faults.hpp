// SPDX-License-Identifier: BSD-3-Clause
//
// What a fault schedule needs to be carried out by a device: the packets that it holds back, and the
// completion queues that it keeps from their program.
//
// Under the device's lock. A device without faults has none of this.
#pragma once

#include <vector>

#include "roce/engine/completion_queue.hpp"
#include "roce/socket/delay_line.hpp"
#include "roce/socket/faults.hpp"

namespace sluice::uroce {

class DeviceFaults {
  public:
    // So many queues can stand still at a time; more are let go on.
    static constexpr std::size_t kMostQueues = 256;

    explicit DeviceFaults(port::FaultSchedule schedule) : schedule_(std::move(schedule)) {
        stalled_.reserve(kMostQueues);
    }

    port::FaultSchedule& schedule() noexcept { return schedule_; }
    port::DelayLine& delayed() noexcept { return delayed_; }

    // A completion is about to be pushed to QUEUE: it, and all behind it, may have to wait.
    void before_completion(CompletionQueue& queue, Nanoseconds now) noexcept;
    // Lets go on what has waited long enough.
    void release_queues(Nanoseconds now) noexcept;
    // QUEUE ends.
    void forget(const CompletionQueue& queue) noexcept;
    Nanoseconds next_deadline() const noexcept;

  private:
    struct Stalled {
        CompletionQueue* queue;
        Nanoseconds due;
    };

    port::FaultSchedule schedule_;
    port::DelayLine delayed_;
    std::vector<Stalled> stalled_; // its memory is reserved
};

} // namespace sluice::uroce
