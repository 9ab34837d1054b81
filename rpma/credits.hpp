// SPDX-License-Identifier: BSD-3-Clause
//
// How many completions can still come to a completion queue, against how many it has room for (ADR 91).
//
// A receive brings one completion. A send brings one, too, also if it asks for none: it may fail. That it
// will not is known when the next request that asks for one has succeeded, since sends complete in their
// order. So each request that asks for a completion forms a group with those before it that do not, and its
// success gives back the credits of the whole group.
//
// Thread safety: everything may be called from any thread. The lock is held while the device takes a send, so
// that groups and requests have the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/sync.hpp"
#include "rpma/include/librpma.h"

namespace sluice::rpma {

class Credits {
  public:
    static constexpr int kNoRoom = -1; // beside the errnos of a device

    // Of a queue with room for ENTRIES completions, of one queue pair's sends, and of any receives.
    explicit Credits(std::uint32_t entries) : groups_(entries), free_(entries) {}

    // For receives. False: there are not so many.
    bool take(std::uint32_t count) noexcept {
        const LockGuard guard(lock_);
        return take_locked(count);
    }
    void give_back(std::uint32_t count) noexcept {
        const LockGuard guard(lock_);
        free_ += count;
    }

    // Sends one request by POST, which gives the device's answer; that answer, or kNoRoom.
    template<typename Post>
    int send(bool is_signalled, Post&& post) noexcept {
        const LockGuard guard(lock_);
        if (!take_locked(1)) {
            return kNoRoom;
        }
        const int refused = post();
        if (refused == 0) {
            sent_locked(is_signalled);
        } else {
            ++free_;
        }
        return refused;
    }

    // The same for several, of which the device may take the first POSTED only, as POST writes.
    template<typename Post>
    int send(std::span<const ibv_send_wr> requests, std::size_t& posted, Post&& post) noexcept {
        const LockGuard guard(lock_);
        if (!take_locked(static_cast<std::uint32_t>(requests.size()))) {
            posted = 0;
            return kNoRoom;
        }
        const int refused = post();
        for (const ibv_send_wr& request : requests.first(posted)) {
            sent_locked((request.send_flags & IBV_SEND_SIGNALED) != 0);
        }
        free_ += static_cast<std::uint32_t>(requests.size() - posted);
        return refused;
    }

    // What was taken from the queue.
    void completed(std::span<const ibv_wc> completions) noexcept;

  private:
    bool take_locked(std::uint32_t count) noexcept SLUICE_TSA(requires_capability(lock_)) {
        if (count > free_) {
            return false;
        }
        free_ -= count;
        return true;
    }
    void sent_locked(bool is_signalled) noexcept SLUICE_TSA(requires_capability(lock_));
    std::uint32_t next_group_locked() noexcept SLUICE_TSA(requires_capability(lock_));

    SpinLock lock_;
    std::vector<std::uint32_t> groups_ SLUICE_TSA(guarded_by(lock_)); // a ring: the sends in each
    std::size_t first_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::size_t count_ SLUICE_TSA(guarded_by(lock_)) = 0;
    std::uint32_t without_group_ SLUICE_TSA(guarded_by(lock_)) = 0; // no signalled one is behind them yet
    std::uint32_t free_ SLUICE_TSA(guarded_by(lock_));
};

} // namespace sluice::rpma
