// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/event_ring.hpp"

#include <utility>

namespace sluice::dapl {

void EventRing::push(const Event& event) noexcept {
    at(count_++) = event;
    notifying_ += event.is_quiet ? 0 : 1;
}

Event EventRing::pop() noexcept {
    const Event event = slots_[first_];
    first_ = first_ + 1 < slots_.size() ? first_ + 1 : 0;
    --count_;
    notifying_ -= event.is_quiet ? 0 : 1;
    return event;
}

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
