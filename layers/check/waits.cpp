// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/waits.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/looking_ahead.hpp"
#include "layers/check/registry.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::check {

namespace {

// A thread may wait in vain.
constinit std::atomic<bool> any_unseen = false;

} // namespace

void take_event(Queue& queue) noexcept {
    queue.is_armed = false;
    queue.events_unacknowledged.fetch_add(1);
    queue.last_getter = this_thread();
    any_unseen.store(true, std::memory_order_relaxed);
}

void take_arming(Queue& queue, bool is_for_solicited, Place place) noexcept {
    queue.is_armed_for_solicited = is_for_solicited;
    queue.is_left_full = false;
    queue.armed_last = place;
    queue.is_armed = true;
    if (is_for_solicited && report::depth() == report::Depth::kPedantic) {
        any_unseen.store(true, std::memory_order_relaxed);
    }
    const bool may_have_come = queue.was_polled && queue.connected != 0 && queue.owed != 0;
    queue.armed_unseen = may_have_come ? place : nullptr;
    if (may_have_come) {
        any_unseen.store(true, std::memory_order_relaxed);
    }
}

namespace {

// Of all queues of CHANNEL none is armed, and this thread itself took the last event and polled.
void check_armed(const ibv_comp_channel* channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto all = Registry::instance().queues.all(
            [channel](const Queue& queue) { return queue.channel == channel; });
        const bool is_armed =
            std::ranges::any_of(all, [](const auto& queue) { return queue->is_armed.load(); });
        const auto own = std::ranges::find_if(all, [](const auto& queue) {
            return queue->last_getter == this_thread() && queue->last_poller == this_thread();
        });
        if (is_armed || own == all.end()) {
            return {};
        }
        tell("waits-unarmed", {{"the thread waits", place}, {"the queue was made", (*own)->made}}, [&] {
            return Told{
                name_of(**own),
                "its event was taken, it wasn't armed since, and the thread waits for another one: none "
                "comes",
                "call ibv_req_notify_cq() after each event, then poll until the queue is empty, then wait"};
        });
        return {};
    });
}

// No event comes within MS.
bool stays_silent(const ibv_comp_channel* channel, int ms) noexcept {
    static constinit hooks::Next<int(pollfd*, nfds_t, int)> real_poll("poll");
    pollfd event{.fd = channel->fd, .events = POLLIN, .revents = 0};
    const auto wait_for_event = real_poll.get();
    return wait_for_event != nullptr && wait_for_event(&event, 1, ms) == 0;
}

// Whether completions lie in QUEUE for which no event comes: nothing can arrive later on their behalf.
bool lies_unseen(Queue& queue, const ibv_comp_channel* channel) noexcept {
    constexpr int kLateMs = 20; // of an event behind its completion; the thread would sleep anyway
    if (!stays_silent(channel, 0)) {
        return false;
    }
    look_ahead(queue);
    {
        const LockGuard lock(queue.mutex);
        if (queue.ahead.empty()) {
            return false;
        }
    }
    return stays_silent(channel, kLateMs);
}

void tell_lying(const Queue& queue, Place place) noexcept {
    if (queue.is_left_full) {
        tell("left-in-the-queue",
             {{"the thread waits", place},
              {"the queue was polled", queue.polled_last},
              {"it was armed", queue.armed_last}},
             [&] {
                 return Told{name_of(queue),
                             "it was polled since it was armed, but not until it was empty: completions lie "
                             "there, and no event comes for them",
                             "arm the queue, then poll until fewer completions come than were asked for, "
                             "then wait"};
             });
        return;
    }
    tell("armed-for-solicited", {{"the thread waits", place}, {"the queue was armed", queue.armed_last}},
         [&] {
             return Told{
                 name_of(queue),
                 "it is armed for solicited completions alone, and others lie there: no event comes for "
                 "them",
                 "arm with 0 as the second argument of ibv_req_notify_cq(), or let the peer send with "
                 "IBV_SEND_SOLICITED"};
         });
}

// What this thread itself has polled last is armed, and something lies there all the same.
void check_lying(const ibv_comp_channel* channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const bool is_pedantic = report::depth() == report::Depth::kPedantic;
        const auto suspicious = Registry::instance().queues.all([&](const Queue& queue) {
            return queue.channel == channel && queue.is_armed && queue.real == nullptr &&
                   queue.last_poller == this_thread() &&
                   (queue.is_left_full || (is_pedantic && queue.is_armed_for_solicited));
        });
        for (const std::shared_ptr<Queue>& queue : suspicious) {
            if (lies_unseen(*queue, channel)) {
                tell_lying(*queue, place);
            }
            queue->is_left_full = false;
        }
        return {};
    });
}

} // namespace

void check_wait(const ibv_comp_channel* channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto unseen = Registry::instance().queues.all([channel](const Queue& queue) {
            return queue.channel == channel && queue.armed_unseen.load() != nullptr;
        });
        for (const std::shared_ptr<Queue>& queue : unseen) {
            tell("armed-without-a-look",
                 {{"the thread waits", place}, {"the queue was armed", queue->armed_unseen}}, [&] {
                     return Told{
                         name_of(*queue),
                         "it was armed while requests were outstanding, and not polled since: a completion "
                         "that came before the arming brings no event",
                         "arm the queue, then poll it until it is empty, then wait"};
                 });
            queue->armed_unseen = nullptr;
        }
        return {};
    });
}

void check_blocking(const ibv_comp_channel* channel) noexcept {
    if (any_unseen.load(std::memory_order_relaxed) && (fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0 &&
        stays_silent(channel, 0)) {
        const Place place = here();
        check_wait(channel, place);
        check_armed(channel, place);
        check_lying(channel, place);
    }
}

bool has_channels() noexcept {
    return any_unseen.load(std::memory_order_relaxed);
}

void check_wait_for(int fd, bool is_alone) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto channels =
            Registry::instance().channels.all([fd](const Channel& channel) { return channel.fd == fd; });
        for (const std::shared_ptr<Channel>& channel : channels) {
            const Place place = here();
            check_wait(channel->object, place);
            if (is_alone) {
                check_armed(channel->object, place);
                check_lying(channel->object, place);
            }
        }
        return {};
    });
}

} // namespace sluice::layers::check
