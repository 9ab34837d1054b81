// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/completions.hpp"

#include <optional>

#include "layers/check/buffers.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/failures.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

// Of the first that this completion can be of. One that failed may be of any request.
std::optional<std::size_t> index_of(const Requests& requests, const Completion& completion) noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const Request& request = requests[i];
        if (request.id == completion.id && (request.has_completion || completion.status != IBV_WC_SUCCESS)) {
            return i;
        }
    }
    return std::nullopt;
}

void end_oldest(Requests& requests, Queue& queue, std::size_t count) noexcept {
    const std::size_t before = requests.owed();
    requests.drop_oldest(count);
    queue.owed.fetch_sub(static_cast<std::uint32_t>(before - requests.owed()), std::memory_order_relaxed);
}

// The request at INDEX ended as COMPLETION says, and with it all before it.
void end_through(QueuePair& pair, Requests& requests, std::size_t index, const Completion& completion,
                 Place place) noexcept {
    const bool is_right = completion.status == IBV_WC_SUCCESS;
    for (std::size_t i = 0; i <= index; ++i) {
        buffers::end(pair, requests[i], is_right || i != index, place);
    }
    if (!is_right) {
        tell_failure(pair, requests[index], completion.status, place);
    }
}

void end_send(QueuePair& pair, std::size_t index, const Completion& completion, Place place) noexcept {
    end_through(pair, pair.sends, index, completion, place);
    end_oldest(pair.sends, *pair.send_queue, index + 1);
}

void note_failure(QueuePair& pair, ibv_wc_status status, Place place) noexcept {
    // A program that has moved the queue pair to error itself may post a last request to see the end of all.
    const bool is_meant = status == IBV_WC_WR_FLUSH_ERR && report::depth() != report::Depth::kPedantic;
    if (status == IBV_WC_SUCCESS || is_meant || pair.failure != IBV_WC_SUCCESS) {
        return;
    }
    pair.failure_seen = place;
    pair.failure = status;
    pair.failure_seen_by = this_thread();
}

// A shared queue's receives end in any order.
void end_shared_receive(QueuePair& pair, const Completion& completion, Place place) noexcept {
    SharedQueue& shared = *pair.shared;
    const LockGuard lock(shared.mutex);
    for (std::size_t i = 0; i < shared.requests.size(); ++i) {
        Request& request = shared.requests[i];
        if (request.has_completion && request.id == completion.id) {
            buffers::end(pair, request, completion.status == IBV_WC_SUCCESS, place);
            if (completion.status != IBV_WC_SUCCESS) {
                tell_failure(pair, request, completion.status, place);
            }
            shared.requests.settle(request);
            break;
        }
    }
    while (!shared.requests.empty() && !shared.requests[0].has_completion) {
        shared.requests.drop_oldest(1);
    }
}

void end_receive(QueuePair& pair, const Completion& completion, Place place) noexcept {
    if (completion.status == IBV_WC_SUCCESS) {
        pair.arrivals.fetch_add(1, std::memory_order_relaxed);
        pair.arrived_last.store(place, std::memory_order_relaxed);
    }
    if (pair.shared != nullptr) {
        end_shared_receive(pair, completion, place);
        return;
    }
    const std::optional<std::size_t> index = index_of(pair.receives, completion);
    if (index) {
        end_through(pair, pair.receives, *index, completion, place);
        end_oldest(pair.receives, *pair.receive_queue, *index + 1);
    }
}

// A completion that failed doesn't say of which queue it is: only where the queue pair has two completion
// queues, or one request matches.
bool is_of_receives(const QueuePair& pair, const Queue& queue, const Completion& completion) noexcept {
    if (completion.status == IBV_WC_SUCCESS) {
        return completion.is_receive;
    }
    if (pair.send_queue != pair.receive_queue) {
        return pair.receive_queue.get() == &queue;
    }
    return !index_of(pair.sends, completion);
}

void drop_all(Requests& requests, Queue& queue) noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        buffers::release(requests[i]);
    }
    end_oldest(requests, queue, requests.size());
}

} // namespace

void take_completion(Queue& queue, const Completion& completion, Place place) noexcept {
    const std::shared_ptr<QueuePair> pair =
        Registry::instance().pairs_by_number.find({queue.context->verbs, completion.pair_number});
    if (pair == nullptr) {
        return;
    }
    const LockGuard lock(pair->mutex);
    note_failure(*pair, completion.status, place);
    if (is_of_receives(*pair, queue, completion)) {
        end_receive(*pair, completion, place);
    } else if (const std::optional<std::size_t> index = index_of(pair->sends, completion)) {
        end_send(*pair, *index, completion, place);
    }
}

void take_empty_poll(Queue& queue, Place place) noexcept {
    const std::uint32_t lost = queue.lost_with_pairs.load(std::memory_order_relaxed);
    if (lost == 0 || queue.pairs.load(std::memory_order_relaxed) != 0) {
        return;
    }
    // Some look once whether anything is left, and know that it may be nothing.
    constexpr std::uint32_t kWaits = 1000;
    const std::uint32_t polls = queue.polls_in_vain.fetch_add(1, std::memory_order_relaxed) + 1;
    if (polls < kWaits && report::depth() != report::Depth::kPedantic) {
        return;
    }
    queue.lost_with_pairs = 0;
    tell("queue-pair-ended-in-use",
         {{"the queue is polled", place}, {"its last queue pair was destroyed", queue.pair_ended.load()}},
         [&] {
             return Told{name_of(queue),
                         "it is polled for completions, and its queue pairs were destroyed with " +
                             std::to_string(lost) + " requests posted: these never complete",
                         "move a queue pair to IBV_QPS_ERR and poll all its requests, then destroy it"};
         });
}

void drop_all_requests(QueuePair& pair) noexcept {
    const LockGuard lock(pair.mutex);
    drop_all(pair.sends, *pair.send_queue);
    drop_all(pair.receives, *pair.receive_queue);
}

} // namespace sluice::layers::check
