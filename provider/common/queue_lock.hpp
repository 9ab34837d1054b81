// SPDX-License-Identifier: BSD-3-Clause
//
// The lock of a queue, which a program can promise to do without: by a thread domain, or by a
// completion queue that only one thread uses. Then it costs a predictable branch.
#pragma once

#include "core/sync.hpp"

namespace sluice::provider {

class SLUICE_TSA(capability("mutex")) QueueLock {
  public:
    // Before the queue is used for the first time.
    void elide() noexcept { elided_ = true; }
    bool elided() const noexcept { return elided_; }

    void lock() noexcept SLUICE_TSA(acquire_capability()) SLUICE_TSA(no_thread_safety_analysis) {
        if (!elided_) {
            lock_.lock();
        }
    }
    bool try_lock() noexcept SLUICE_TSA(try_acquire_capability(true)) SLUICE_TSA(no_thread_safety_analysis) {
        return elided_ || lock_.try_lock();
    }
    void unlock() noexcept SLUICE_TSA(release_capability()) SLUICE_TSA(no_thread_safety_analysis) {
        if (!elided_) {
            lock_.unlock();
        }
    }

  private:
    SpinLock lock_;
    bool elided_ = false;
};

} // namespace sluice::provider
