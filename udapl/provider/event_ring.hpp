// SPDX-License-Identifier: BSD-3-Clause
//
// The queued events of one dispatcher, oldest first. Software events and events of connections fit up to the
// length that the program asked for; behind that there is room for every completion that the completion queue
// can have. It has no lock of its own: the dispatcher's guards it.
#pragma once

#include <cstddef>
#include <vector>

#include "udapl/provider/event.hpp"

namespace sluice::dapl {

class EventRing {
  public:
    explicit EventRing(std::size_t length) : length_(length), slots_(length) {}

    std::size_t length() const noexcept { return length_; }
    std::size_t count() const noexcept { return count_; }
    // How many of these wake a waiter or trigger the CNO.
    std::size_t notifying() const noexcept { return notifying_; }
    bool is_full() const noexcept { return count_ >= length_; }
    // How many completions fit.
    std::size_t room() const noexcept { return slots_.size() - count_; }

    // There is room, for these two. The slot of the next event, which counts once it is written and pushed.
    Event& next() noexcept { return at(count_); }
    void push() noexcept {
        notifying_ += next().is_quiet ? 0 : 1;
        ++count_;
    }
    // There is one, for these two.
    const Event& first() const noexcept { return slots_[first_]; }
    void drop_first() noexcept {
        notifying_ -= slots_[first_].is_quiet ? 0 : 1;
        first_ = first_ + 1 < slots_.size() ? first_ + 1 : 0;
        --count_;
    }
    // The newest event notifies from now on. False: there is none, or it did already.
    bool make_newest_notify() noexcept;
    // The receives of ENDPOINT aren't counted any more.
    void forget(const void* endpoint) noexcept;
    // COMPLETIONS: how many more fit. What is queued fits.
    void resize(std::size_t length, std::size_t completions);

  private:
    // INDEX is less than the number of slots.
    Event& at(std::size_t index) noexcept {
        const std::size_t place = first_ + index;
        return slots_[place < slots_.size() ? place : place - slots_.size()];
    }

    std::size_t length_;
    std::vector<Event> slots_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::size_t notifying_ = 0;
};

} // namespace sluice::dapl
