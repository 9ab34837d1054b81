// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/lifetimes.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "layers/check/completions.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/looking_ahead.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::string_view kItsPost = "the request was posted";

// Whether the device may still come back to its requests.
bool is_at_work(const QueuePair& pair) noexcept {
    return pair.is_connected && pair.failure == IBV_WC_SUCCESS;
}

// Whether a completion that the program could have polled lets it off.
bool counts_ahead() noexcept {
    return report::depth() != report::Depth::kPedantic;
}

// Whether its completion, or a later one, is among those that were taken ahead.
bool is_ahead(const Queue& queue, const QueuePair& pair, const Requests& requests,
              std::size_t index) noexcept {
    return counts_ahead() && std::ranges::any_of(queue.ahead, [&](const ibv_wc& completion) {
               if (completion.qp_num != pair.number) {
                   return false;
               }
               for (std::size_t i = index; i < requests.size(); ++i) {
                   if (requests[i].id == completion.wr_id && requests[i].has_completion) {
                       return true;
                   }
               }
               return false;
           });
}

// The program can't know the request's end. What the peer has answered may have ended.
bool is_outstanding(const QueuePair& pair, const Request& request) noexcept {
    const bool is_lost = pair.send_queue->is_told_overrun || pair.receive_queue->is_told_overrun;
    return request.has_completion && !is_lost && !request.is_told_of &&
           (request.kind == Kind::kReceive || pair.arrivals.load() == request.arrivals);
}

// Two completion queues at a time are locked here alone, by one thread at a time: others take one.
class BothQueues {
  public:
    explicit BothQueues(const QueuePair& pair) noexcept SLUICE_TSA(no_thread_safety_analysis)
        : first_(*pair.send_queue), second_(*pair.receive_queue) {
        mutex.lock();
        first_.mutex.lock();
        if (&first_ != &second_) {
            second_.mutex.lock();
        }
    }
    ~BothQueues() SLUICE_TSA(no_thread_safety_analysis) {
        if (&first_ != &second_) {
            second_.mutex.unlock();
        }
        first_.mutex.unlock();
        mutex.unlock();
    }
    BothQueues(const BothQueues&) = delete;
    BothQueues& operator=(const BothQueues&) = delete;

  private:
    static constinit Mutex mutex;
    Queue& first_;
    Queue& second_;
};
constinit Mutex BothQueues::mutex;

// A queue that is polled in steps can't be looked at ahead. A request that fails since something has ended is
// told with its completion.
bool is_unseen(const Queue& queue) noexcept {
    return queue.real != nullptr && counts_ahead();
}

struct Use {
    std::string owner;
    std::string request;
    Place posted = nullptr;
};

template<typename Owner>
Use use_by(const Owner& owner, Request& request) {
    request.is_told_of = true;
    return {name_of(owner), name_of(request), request.posted};
}

// REQUESTS are PAIR's, with completions in QUEUE.
template<typename Uses>
std::optional<Use> find_use(const QueuePair& pair, const Queue& queue, Requests& requests, Uses&& uses) {
    for (std::size_t i = 0; i < requests.size() && !is_unseen(queue); ++i) {
        if (is_outstanding(pair, requests[i]) && uses(requests[i]) && !is_ahead(queue, pair, requests, i)) {
            return use_by(pair, requests[i]);
        }
    }
    return std::nullopt;
}

// The numbers of the receives that were taken ahead for PAIR. Nothing: its queue can't be looked at.
std::optional<std::vector<std::uint64_t>> receives_ahead(const QueuePair& pair) {
    std::vector<std::uint64_t> ids;
    Queue& queue = *pair.receive_queue;
    if (is_unseen(queue) || queue.is_told_overrun) {
        return std::nullopt;
    }
    look_ahead(queue);
    const LockGuard lock(queue.mutex);
    for (const ibv_wc& completion : queue.ahead) {
        if (counts_ahead() && completion.qp_num == pair.number) {
            ids.push_back(completion.wr_id);
        }
    }
    return ids;
}

// Each of the queue pairs may have taken a receive, and each may have a completion queue of its own.
template<typename Uses>
std::optional<Use> find_use(SharedQueue& shared, Uses&& uses) {
    std::vector<std::uint64_t> ahead;
    for (const auto& pair : Registry::instance().pairs.all(
             [&](const QueuePair& each) { return each.shared.get() == &shared; })) {
        const std::optional<std::vector<std::uint64_t>> ids = receives_ahead(*pair);
        if (!ids) {
            return std::nullopt;
        }
        ahead.insert(ahead.end(), ids->begin(), ids->end());
    }
    const LockGuard lock(shared.mutex);
    for (std::size_t i = 0; i < shared.requests.size(); ++i) {
        Request& request = shared.requests[i];
        if (request.has_completion && !request.is_told_of && uses(request) &&
            std::ranges::find(ahead, request.id) == ahead.end()) {
            return use_by(shared, request);
        }
    }
    return std::nullopt;
}

template<typename Uses>
std::optional<Use> find_own_use(QueuePair& pair, Uses&& uses) {
    look_ahead(*pair.send_queue);
    look_ahead(*pair.receive_queue);
    const BothQueues queues(pair);
    const LockGuard lock(pair.mutex);
    std::optional<Use> found = find_use(pair, *pair.send_queue, pair.sends, uses);
    return found ? found : find_use(pair, *pair.receive_queue, pair.receives, uses);
}

// A request of a device at work that USES something. Null: there is none.
template<typename Uses>
std::optional<Use> find_use(const ibv_context* context, Uses&& uses) {
    const auto at_work = Registry::instance().pairs.all(
        [&](const QueuePair& pair) { return pair.context->verbs == context && is_at_work(pair); });
    for (const std::shared_ptr<QueuePair>& pair : at_work) {
        std::optional<Use> found = find_own_use(*pair, uses);
        if (!found && pair->shared != nullptr) {
            found = find_use(*pair->shared, uses);
        }
        if (found) {
            return found;
        }
    }
    return std::nullopt;
}

// A completion that was taken ahead goes or stays as it would in the device's own queue: a program that polls
// behind the end sees all of them or none, as without us (ADR 68).
void forget_ahead(Queue& queue, std::uint32_t pair_number) noexcept {
    if (queue.context->keeps_completions) {
        return;
    }
    const LockGuard lock(queue.mutex);
    std::erase_if(queue.ahead, [&](const ibv_wc& completion) { return completion.qp_num == pair_number; });
}

void count_lost(Queue& queue, std::size_t count, Place place) noexcept {
    if (count != 0) {
        queue.pair_ended = place;
        queue.lost_with_pairs.fetch_add(static_cast<std::uint32_t>(count));
    }
}

} // namespace

void check_end(const Region& region, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const std::optional<Use> use = find_use(region.context, [&](const Request& request) {
            return std::ranges::any_of(request.watched(),
                                       [&](const Piece& piece) { return piece.region.get() == &region; });
        });
        if (use) {
            tell("region-ended-in-use",
                 {{"the region is ended", place},
                  {kItsPost, use->posted},
                  {"the region was registered", region.made}},
                 [&] {
                     return Told{
                         name_of(region) + " of " + device_of(region.context),
                         use->request + " of " + use->owner + " names it and hasn't completed",
                         "await the completion of each request that names a region, then deregister it"};
                 });
        }
        return {};
    });
}

void check_unmapping(const Region& region, std::uint64_t first, std::uint64_t bytes, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const std::optional<Use> use = find_use(region.context, [&](const Request& request) {
            return std::ranges::any_of(request.watched(), [&](const Piece& piece) {
                return piece.region.get() == &region && piece.address < first + bytes &&
                       first < piece.address + piece.length;
            });
        });
        if (use) {
            tell("unmapped-in-use",
                 {{"its memory is given back", place},
                  {kItsPost, use->posted},
                  {"the region was registered", region.made}},
                 [&] {
                     return Told{
                         name_of(region) + " of " + device_of(region.context),
                         use->request + " of " + use->owner +
                             " names memory that is unmapped, and hasn't completed",
                         "await the completion of each request that names memory, then deregister it, then "
                         "unmap or free it"};
                 });
        }
        return {};
    });
}

void check_end(const AddressHandle& handle, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        const std::optional<Use> use = find_use(handle.context->verbs, [&](const Request& request) {
            return request.address_handle == handle.object;
        });
        if (use) {
            tell("address-handle-ended-in-use",
                 {{"the address handle is ended", place},
                  {kItsPost, use->posted},
                  {"it was made", handle.made}},
                 [&] {
                     return Told{"address handle of " + handle.context->device,
                                 use->request + " of " + use->owner + " names it and hasn't completed",
                                 "await the completion of each request that names it, then destroy it"};
                 });
        }
        return {};
    });
}

void check_end(const Queue& queue, Place place) noexcept {
    const std::uint32_t events = queue.events_unacknowledged.load();
    if (events == 0 || queue.last_getter.load() != this_thread()) {
        return;
    }
    tell("event-not-acknowledged", {{"the queue is destroyed", place}, {"it was made", queue.made}}, [&] {
        return Told{
            name_of(queue),
            std::to_string(events) +
                " of its events were taken by this thread and not acknowledged: ibv_destroy_cq() waits "
                "for that without end",
            "call ibv_ack_cq_events() for each event that ibv_get_cq_event() gave, with the queue that "
            "it named"};
    });
}

void take_state(QueuePair& pair, ibv_qp_state state) noexcept {
    const bool is_connected = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
    if (pair.is_connected.exchange(is_connected) != is_connected) {
        const std::uint32_t difference = is_connected ? 1U : ~0U;
        pair.send_queue->connected.fetch_add(difference);
        pair.receive_queue->connected.fetch_add(difference);
    }
    pair.state = state;
    if (state == IBV_QPS_INIT || is_connected) {
        pair.refusal_seen_by = nullptr; // it is connected once more
    }
    if (state == IBV_QPS_RESET) {
        drop_all_requests(pair);
        {
            const LockGuard lock(pair.mutex);
            pair.refused_list = {};
        }
        forget_ahead(*pair.send_queue, pair.number);
        forget_ahead(*pair.receive_queue, pair.number);
        pair.failure = IBV_WC_SUCCESS;
        pair.failure_seen_by = nullptr;
    }
}

void take_end(QueuePair& pair, Place place) noexcept {
    const bool was_at_work = is_at_work(pair) || pair.state == IBV_QPS_INIT;
    std::size_t sends = 0;
    std::size_t receives = 0;
    {
        const LockGuard lock(pair.mutex);
        sends = pair.sends.owed();
        receives = pair.receives.owed();
    }
    take_state(pair, IBV_QPS_RESET);
    pair.send_queue->pairs.fetch_sub(1);
    pair.receive_queue->pairs.fetch_sub(1);
    if (was_at_work) {
        count_lost(*pair.send_queue, sends, place);
        count_lost(*pair.receive_queue, receives, place);
    }
}

} // namespace sluice::layers::check
