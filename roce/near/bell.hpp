// SPDX-License-Identifier: BSD-3-Clause
//
// Wakes a thread of another process. A process that is given something else in its place, and rings that,
// neither waits for it nor gets a signal. A process that has the far end may also shut it down.
#pragma once

#include "core/descriptor.hpp"

namespace sluice::roce::near {

class Bell {
  public:
    // Without descriptors, it has none: see can_ring().
    Bell() noexcept;

    bool can_ring() const noexcept { return own_.get() >= 0; }
    // Readable after it was rung, until quiet().
    int own_end() const noexcept { return own_.get(); }
    // For ring(), of any process.
    int far_end() const noexcept { return far_.get(); }
    void quiet() noexcept;
    // This is the child of a fork: the bell is the parent's.
    void abandon() noexcept;

    static void ring(const Descriptor& far_end) noexcept;

  private:
    Descriptor own_;
    Descriptor far_;
};

} // namespace sluice::roce::near
