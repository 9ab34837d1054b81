// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/waits.hpp"

#include <fcntl.h>

#include <algorithm>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

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

void take_arming(Queue& queue, Place place) noexcept {
    queue.is_armed = true;
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
    if (any_unseen.load(std::memory_order_relaxed) && (fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0) {
        const Place place = here();
        check_wait(channel, place);
        check_armed(channel, place);
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
            }
        }
        return {};
    });
}

} // namespace sluice::layers::check
