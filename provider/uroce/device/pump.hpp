// SPDX-License-Identifier: BSD-3-Clause
//
// For the parts of Device alone.
#pragma once

#include <algorithm>
#include <array>

#include "provider/uroce/device/device.hpp"

namespace sluice::uroce::device {

// The devices that one thread holds while packets go to and fro between them. It starts with one, and takes
// others as packets lead to them, if that needs no waiting.
class Pump {
  public:
    explicit Pump(Device& first) noexcept : now_(monotonic_now) { held_[count_++] = &first; }

    const engine::Moment& now() const noexcept { return now_; }

    // By its home: most packets go to one.
    Device* find(const engine::Address& address) const noexcept {
        return find_if([&](const Device* held) { return held->where().gid == address; });
    }
    Device* find(const Neighbour& neighbour) const noexcept {
        return find_if([&](const Device* held) { return held == &neighbour; });
    }
    // A device that is held has got a packet since its turn.
    void go_on() noexcept { goes_on_ = true; }
    // DEVICE's lock was taken by this thread just now.
    void add(Device& device) noexcept { held_[count_++] = &device; }

    // Until no packet is left for any of them, and nobody has left a note.
    void run() noexcept {
        while (count_ != 0) {
            while (round()) {
            }
            count_ -= held_[count_ - 1]->end_work() ? 1 : 0;
        }
    }

    // The same for all but the first device, which stays held.
    void run_and_keep_first() noexcept {
        for (;;) {
            while (round()) {
            }
            if (count_ == 1) {
                return;
            }
            count_ -= held_[count_ - 1]->end_work() ? 1 : 0;
        }
    }

  private:
    template<typename Is>
    Device* find_if(Is&& is_it) const noexcept {
        const auto end = held_.begin() + static_cast<std::ptrdiff_t>(count_);
        const auto found = std::find_if(held_.begin(), end, is_it);
        return found == end ? nullptr : *found;
    }
    bool round() noexcept {
        goes_on_ = false;
        for (std::size_t i = 0; i < count_; ++i) {
            held_[i]->work(*this);
        }
        return goes_on_;
    }

    engine::Moment now_;
    bool goes_on_ = false;
    std::size_t count_ = 0;
    // Not initialised: most of the time one is used. Nobody can hold more than there are.
    std::array<Device*, kMaxDevices> held_;
};

} // namespace sluice::uroce::device
