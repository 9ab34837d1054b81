// SPDX-License-Identifier: BSD-3-Clause
//
// Completions on their way to the program. A queue that is too small loses completions and says
// so: that is an error of the program, and the standard ends the queue with an event (IBTA vol 1,
// 10.10). Not thread safe.
#pragma once

#include "provider/uroce/engine/ring.hpp"
#include "provider/uroce/engine/types.hpp"

namespace sluice::uroce {

class CompletionQueue {
  public:
    enum class Arm : std::uint8_t { kNone, kSolicited, kAny };

    explicit CompletionQueue(std::uint32_t capacity) : ring_(capacity) {}

    bool push(const Completion& completion) noexcept {
        if (ring_.full()) {
            overflowed_ = true;
            return false;
        }
        ring_.grow() = completion;
        const bool wanted =
            (completion.flags & kSolicitedEvent) != 0 || completion.status != Status::kSuccess;
        if (arm_ == Arm::kAny || (arm_ == Arm::kSolicited && wanted)) {
            arm_ = Arm::kNone;
            event_due_ = true;
        }
        return true;
    }

    bool poll(Completion& out) noexcept {
        if (ring_.empty()) {
            return false;
        }
        out = ring_.front();
        ring_.pop_front();
        return true;
    }

    // The next completion (that is solicited or an error, for kSolicited) makes an event due, once.
    void arm(Arm arm) noexcept { arm_ = arm_ == Arm::kAny ? Arm::kAny : arm; }
    bool take_event() noexcept {
        const bool due = event_due_;
        event_due_ = false;
        return due;
    }

    bool overflowed() const noexcept { return overflowed_; }
    std::uint32_t size() const noexcept { return ring_.size(); }

  private:
    Ring<Completion> ring_;
    Arm arm_ = Arm::kNone;
    bool event_due_ = false;
    bool overflowed_ = false;
};

} // namespace sluice::uroce
