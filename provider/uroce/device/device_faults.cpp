// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/device_faults.hpp"

#include <algorithm>

namespace sluice::uroce::device {

void DeviceFaults::before_completion(engine::CompletionQueue& queue, engine::Nanoseconds now) noexcept {
    const engine::Nanoseconds stall = schedule_.on_completion().stall;
    if (stall == 0) {
        return;
    }
    const auto known = std::ranges::find(stalled_, &queue, &Stalled::queue);
    if (known != stalled_.end()) {
        known->due = std::max(known->due, now + stall);
    } else if (stalled_.size() < kMostQueues) {
        stalled_.push_back({&queue, now + stall});
    } else {
        return;
    }
    queue.hold();
}

void DeviceFaults::release_queues(engine::Nanoseconds now) noexcept {
    for (std::size_t i = 0; i < stalled_.size();) {
        if (stalled_[i].due > now) {
            ++i;
            continue;
        }
        stalled_[i].queue->let_go();
        stalled_[i] = stalled_.back();
        stalled_.pop_back();
    }
}

void DeviceFaults::forget(const engine::CompletionQueue& queue) noexcept {
    std::erase_if(stalled_, [&](const Stalled& one) { return one.queue == &queue; });
}

engine::Nanoseconds DeviceFaults::next_deadline() const noexcept {
    engine::Nanoseconds next = delayed_.next_deadline();
    for (const Stalled& one : stalled_) {
        next = std::min(next, one.due);
    }
    return next;
}

} // namespace sluice::uroce::device
