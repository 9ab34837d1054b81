// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/vain_polls.hpp"

#include <algorithm>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

// A program that only looks from time to time posts, or polls something else, in between.
constexpr std::uint32_t kWaits = 100;

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
    } else if (queue.vain_polls.fetch_add(1, std::memory_order_relaxed) + 1 == kWaits) {
        (void)at_boundary("check", [&]() -> Result<void> {
            look_for_unsignalled(queue, here());
            return {};
        });
    }
}

} // namespace sluice::layers::check
