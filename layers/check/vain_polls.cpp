// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/vain_polls.hpp"

#include <chrono>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

// A program that only looks from time to time posts in between. On a busy machine few polls take long.
constexpr std::uint32_t kLeastPolls = 10;
constexpr std::chrono::milliseconds kLong(50);
constexpr std::uint32_t kTold = std::uint32_t{1} << 31;

thread_local std::chrono::steady_clock::time_point vain_since;

bool is_wanted() noexcept {
    return report::depth() == report::Depth::kPedantic;
}

void tell_vain(const Queue& queue, const QueuePair& pair, std::size_t count, Place posted, Place place) {
    tell("no-completion-asked-for", {{"the queue is polled", place}, {"the last request was posted", posted}},
         [&] {
             return Told{name_of(queue),
                         "it is polled again and again, and nothing can come: the last " +
                             std::to_string(count) + " requests of " + name_of(pair) +
                             " asked for no completion",
                         "set IBV_SEND_SIGNALED in the last request that is waited for; a completion ends "
                         "all requests before it, too"};
         });
}

// Requests of a queue pair with a shared queue may complete that aren't counted.
bool may_receive(const Queue& queue) noexcept {
    return !Registry::instance()
                .pairs
                .all([&](const QueuePair& pair) {
                    return pair.shared != nullptr && pair.receive_queue.get() == &queue;
                })
                .empty();
}

void look_for_unsignalled(Queue& queue, Place place) {
    if (may_receive(queue)) {
        return;
    }
    const auto senders = Registry::instance().pairs.all(
        [&](const QueuePair& pair) { return pair.send_queue.get() == &queue && pair.is_connected; });
    for (const std::shared_ptr<QueuePair>& pair : senders) {
        const LockGuard lock(pair->mutex);
        if (!pair->sends.empty() && pair->sends.owed() == 0) {
            const Request& last = pair->sends[pair->sends.size() - 1];
            tell_vain(queue, *pair, pair->sends.size(), last.posted, place);
            return;
        }
    }
}

// Whether it is time to tell, after POLLS before this one.
bool is_long(std::uint32_t polls) noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (polls == 0) {
        vain_since = now;
    }
    return polls >= kLeastPolls && polls < kTold && now - vain_since >= kLong;
}

} // namespace

void take_sending(Queue& queue) noexcept {
    if (is_wanted()) {
        queue.last_poster.store(this_thread(), std::memory_order_relaxed);
        queue.vain_polls.store(0, std::memory_order_relaxed);
    }
}

void take_poll(Queue& queue, int count) noexcept {
    if (!is_wanted()) {
        return;
    }
    const bool is_vain = count == 0 && queue.owed.load(std::memory_order_relaxed) == 0 &&
                         queue.last_poster.load(std::memory_order_relaxed) == this_thread();
    if (!is_vain) {
        queue.vain_polls.store(0, std::memory_order_relaxed);
    } else if (is_long(queue.vain_polls.fetch_add(1, std::memory_order_relaxed))) {
        queue.vain_polls.store(kTold, std::memory_order_relaxed);
        (void)at_boundary("check", [&]() -> Result<void> {
            look_for_unsignalled(queue, here());
            return {};
        });
    }
}

} // namespace sluice::layers::check
