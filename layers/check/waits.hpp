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
// This thread is about to wait for an event of CHANNEL, unless the channel's descriptor is one that doesn't
// wait, or an event is there.
void check_blocking(const ibv_comp_channel* channel) noexcept;
// Whether this thread may wait in vain for something: if not, what it waits for needn't be known.
bool may_wait_in_vain() noexcept;
// How much is to be known of a wait before it is reported.
struct WaitRules {
    bool is_alone = false;      // the thread waits for nothing else
    bool has_to_happen = false; // a completion has to lie there
};
// For an event of a descriptor, which may be a channel's.
void check_wait_for(int fd, WaitRules rules) noexcept;
// For an event of the descriptors in the set of EPOLL. Without --pedantic, what is found has happened: a
// completion lies in the queue, and no event comes. Adapters that raise an event when they are armed beside
// one are common, and programs that count on them wait by epoll (UCX).
void check_wait_in(int epoll) noexcept;

} // namespace sluice::layers::check
