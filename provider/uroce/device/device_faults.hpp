// SPDX-License-Identifier: BSD-3-Clause
//
// What a fault schedule needs to be carried out by a device: the packets that it holds back, and the
// completion queues that it keeps from their program.
//
// Under the device's lock. A device without faults has none of this.
#pragma once

#include <vector>

#include "provider/uroce/roce.hpp"
#include "roce/engine/completion_queue.hpp"
#include "roce/socket/delay_line.hpp"
#include "roce/socket/faults.hpp"

namespace sluice::uroce::device {

class DeviceFaults {
  public:
    // So many queues can stand still at a time; more are let go on.
    static constexpr std::size_t kMostQueues = 256;

    explicit DeviceFaults(socket::FaultSchedule schedule) : schedule_(std::move(schedule)) {
        stalled_.reserve(kMostQueues);
    }

    socket::FaultSchedule& schedule() noexcept { return schedule_; }
    socket::DelayLine& delayed() noexcept { return delayed_; }

    // A completion is about to be pushed to QUEUE: it, and all behind it, may have to wait.
    void before_completion(engine::CompletionQueue& queue, engine::Nanoseconds now) noexcept;
    // Lets go on what has waited long enough.
    void release_queues(engine::Nanoseconds now) noexcept;
    // QUEUE ends.
    void forget(const engine::CompletionQueue& queue) noexcept;
    engine::Nanoseconds next_deadline() const noexcept;

  private:
    struct Stalled {
        engine::CompletionQueue* queue;
        engine::Nanoseconds due;
    };

    socket::FaultSchedule schedule_;
    socket::DelayLine delayed_;
    std::vector<Stalled> stalled_; // its memory is reserved
};

} // namespace sluice::uroce::device
