// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/waits.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "core/file_tree.hpp"
#include "core/not_cancelled.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/looking_ahead.hpp"
#include "layers/check/registry.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::check {

namespace {

// A thread may wait in vain.
constinit std::atomic<bool> any_unseen = false;
// This one has armed a queue, or taken an event of one.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool uses_events = false;

} // namespace

void take_event(Queue& queue) noexcept {
    uses_events = true;
    queue.is_armed = false;
    queue.events_unacknowledged.fetch_add(1);
    queue.last_getter = this_thread();
    any_unseen.store(true, std::memory_order_relaxed);
}

void take_arming(Queue& queue, bool is_for_solicited, Place place) noexcept {
    uses_events = true;
    queue.last_armer = this_thread();
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

// This thread took its last event and polled, and it isn't armed.
bool is_unarmed(const Queue& queue) noexcept {
    return !queue.is_armed && queue.last_getter == this_thread() && queue.last_poller == this_thread();
}

// This thread armed it, and nobody has looked at it since. Another one that waits may be right: the one that
// armed it is about to look.
bool is_not_looked_at(const Queue& queue) noexcept {
    return queue.armed_unseen.load() != nullptr && queue.last_armer == this_thread();
}

// This thread has polled it last, it is armed, and something may lie there for which no event comes.
bool may_lie(const Queue& queue) noexcept {
    return queue.is_armed && queue.real == nullptr && queue.last_poller == this_thread() &&
           (queue.is_left_full ||
            (queue.is_armed_for_solicited && report::depth() == report::Depth::kPedantic));
}

// Of all queues of CHANNEL none is armed, and this thread itself took the last event and polled.
void check_armed(const ibv_comp_channel* channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto all = Registry::instance().queues.all(
            [channel](const Queue& queue) { return queue.channel == channel; });
        const bool is_armed =
            std::ranges::any_of(all, [](const auto& queue) { return queue->is_armed.load(); });
        const auto own = std::ranges::find_if(all, [](const auto& queue) { return is_unarmed(*queue); });
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

void check_lying(const ibv_comp_channel* channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto suspicious = Registry::instance().queues.all(
            [channel](const Queue& queue) { return queue.channel == channel && may_lie(queue); });
        for (const std::shared_ptr<Queue>& queue : suspicious) {
            if (lies_unseen(*queue, channel)) {
                tell_lying(*queue, place);
            }
            queue->is_left_full = false;
        }
        return {};
    });
}

void check_unseen(const ibv_comp_channel* channel, Place place, bool has_to_happen) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto unseen = Registry::instance().queues.all(
            [channel](const Queue& queue) { return queue.channel == channel && is_not_looked_at(queue); });
        for (const std::shared_ptr<Queue>& queue : unseen) {
            if (has_to_happen && (queue->real != nullptr || !lies_unseen(*queue, channel))) {
                continue;
            }
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

// A call for an event that is there is no wait.
void check_wait(const ibv_comp_channel* channel, WaitRules rules) noexcept {
    if (!stays_silent(channel, 0)) {
        return;
    }
    const Place place = here();
    check_unseen(channel, place, rules.has_to_happen);
    if (rules.is_alone) {
        check_armed(channel, place);
        check_lying(channel, place);
    }
}

// What the kernel lists for an epoll descriptor: a line for each descriptor in its set, with the number and
// the events that are wanted, in hexadecimal digits.
struct InEpoll {
    std::vector<int> readable; // those that wait for something to read
    std::size_t count = 0;
};

void add_line(InEpoll& all, const std::string& line) {
    int fd = -1;
    unsigned events = 0;
    if (std::sscanf(line.c_str(), "tfd: %d events: %x", &fd, &events) == 2) { // NOLINT(cert-err34-c)
        ++all.count;
        if ((events & EPOLLIN) != 0) {
            all.readable.push_back(fd);
        }
    }
}

// Nothing is known of a set if its text is longer than the limit.
Result<InEpoll> in_epoll(int epoll) {
    constexpr std::size_t kMostText = std::size_t{1} << 20;
    Result<std::string> text =
        FileTree().read("/proc/thread-self/fdinfo/" + std::to_string(epoll), kMostText);
    if (!text) {
        return std::move(text).error();
    }
    InEpoll all;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        add_line(all, line);
    }
    return all;
}

} // namespace

void check_blocking(const ibv_comp_channel* channel) noexcept {
    const NotCancelled guard;
    if (may_wait_in_vain() && (fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0) {
        check_wait(channel, {.is_alone = true});
    }
}

bool may_wait_in_vain() noexcept {
    return uses_events && any_unseen.load(std::memory_order_relaxed) &&
           Registry::instance().queues.any([](const Queue& queue) {
               return queue.channel != nullptr &&
                      (is_unarmed(queue) || is_not_looked_at(queue) || may_lie(queue));
           });
}

void check_wait_for(int fd, WaitRules rules) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto channels =
            Registry::instance().channels.all([fd](const Channel& channel) { return channel.fd == fd; });
        for (const std::shared_ptr<Channel>& channel : channels) {
            check_wait(channel->object, rules);
        }
        return {};
    });
}

void check_wait_in(int epoll) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        Result<InEpoll> waited = in_epoll(epoll);
        if (!waited) {
            return std::move(waited).error();
        }
        // Another thread may add a descriptor while this one sleeps.
        const bool is_pedantic = report::depth() == report::Depth::kPedantic;
        const WaitRules rules{.is_alone = is_pedantic && waited->count == 1, .has_to_happen = !is_pedantic};
        for (const int fd : waited->readable) {
            check_wait_for(fd, rules);
        }
        return {};
    });
}

} // namespace sluice::layers::check
