// SPDX-License-Identifier: BSD-3-Clause
//
// Threads that sleep until a completion comes, beside one that has come already.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// ibv_req_notify_cq() was called. What may come is said by what is posted to connected queue pairs. A queue
// that was never polled is one that the program is still preparing; and what is posted behind the arming is
// what the program waits for.
void take_arming(Queue& queue, bool is_for_solicited, Place place) noexcept;
// A request was posted whose completion may be awaited.
inline void take_post(Queue& queue) noexcept {
    if (queue.armed_unseen.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        queue.armed_unseen.store(nullptr, std::memory_order_relaxed);
    }
}
// The program has an event of it.
void take_event(Queue& queue) noexcept;
// The queue was looked at.
inline void take_look(Queue& queue) noexcept {
    take_post(queue);
    queue.last_poller.store(this_thread(), std::memory_order_relaxed);
    if (!queue.was_polled.load(std::memory_order_relaxed)) [[unlikely]] {
        queue.was_polled.store(true, std::memory_order_relaxed);
    }
}
// A thread is about to wait for an event of CHANNEL.
void check_wait(const ibv_comp_channel* channel, Place place) noexcept;
// The same, unless the channel's descriptor is one that doesn't wait, or an event is there.
void check_blocking(const ibv_comp_channel* channel) noexcept;
bool has_channels() noexcept;
// For an event of a descriptor, which may be a channel's. IS_ALONE: and for nothing else.
void check_wait_for(int fd, bool is_alone) noexcept;

} // namespace sluice::layers::check
