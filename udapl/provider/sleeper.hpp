// SPDX-License-Identifier: BSD-3-Clause
//
// The thread that sleeps until a dispatcher has events. It sleeps in ppoll() on an eventfd of its own and on
// the channel of the completion queue, so that a signal ends its sleep. Other threads write to the eventfd
// only while it sleeps. Only sleep() is called without the dispatcher's lock.
#pragma once

#include <cstdint>

#include "core/descriptor.hpp"
#include "core/result.hpp"

namespace sluice::dapl {

class Sleeper {
  public:
    enum class End { kWoken, kNotified, kTimedOut, kInterrupted };

    static Result<Sleeper> make();

    // From here on it is woken.
    void fall_asleep() noexcept { is_asleep_ = true; }
    // Until DEADLINE. CHANNEL: a descriptor, or -1. kNotified: the channel is readable.
    End sleep(std::uint64_t deadline, int channel) const;
    void wake_up() noexcept;

    // Ends a sleep, if there is one.
    void wake() noexcept;

  private:
    explicit Sleeper(Descriptor wake) noexcept : wake_(std::move(wake)) {}

    Descriptor wake_;
    bool is_asleep_ = false; // or about to be
    bool is_woken_ = false;  // there is something to read from WAKE_
};

} // namespace sluice::dapl
