// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/event_ring.hpp"

#include <utility>

namespace sluice::dapl {

bool EventRing::make_newest_notify() noexcept {
    if (count_ == 0 || !std::exchange(at(count_ - 1).is_quiet, false)) {
        return false;
    }
    ++notifying_;
    return true;
}

void EventRing::forget(const void* endpoint) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
        Event& event = at(i);
        event.ring = event.object == endpoint ? nullptr : event.ring;
    }
}

void EventRing::resize(std::size_t length, std::size_t completions) {
    std::vector<Event> slots(length + completions);
    for (std::size_t i = 0; i < count_; ++i) {
        slots[i] = at(i);
    }
    slots_.swap(slots);
    length_ = length;
    first_ = 0;
}

} // namespace sluice::dapl
