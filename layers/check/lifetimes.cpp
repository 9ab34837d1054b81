// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/lifetimes.hpp"

#include <algorithm>
#include <optional>

#include "layers/check/completions.hpp"
#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/operations.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::string_view kItsPost = "the request was posted";

// Whether the device may still come back to its requests.
bool is_at_work(const QueuePair& pair) noexcept {
    return pair.is_connected && pair.failure == IBV_WC_SUCCESS;
}

// Whether its completion, or a later one, is among those that were taken ahead. A pedant wants it polled.
bool is_ahead(const Queue& queue, const QueuePair& pair, const Requests& requests,
              std::size_t index) noexcept {
    if (report::depth() == report::Depth::kPedantic) {
        return false;
    }
    return std::ranges::any_of(queue.ahead, [&](const ibv_wc& completion) {
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
    return queue.real != nullptr && report::depth() != report::Depth::kPedantic;
}

struct Use {
    std::string owner;
    std::string request;
    Place posted = nullptr;
};

// REQUESTS are those of OWNER, which is PAIR or its shared receive queue.
template<typename Owner, typename Uses>
std::optional<Use> find_use(const QueuePair& pair, const Owner& owner, const Queue& queue, Requests& requests,
                            Uses&& uses) {
    for (std::size_t i = 0; i < requests.size() && !is_unseen(queue); ++i) {
        if (is_outstanding(pair, requests[i]) && uses(requests[i]) && !is_ahead(queue, pair, requests, i)) {
            requests[i].is_told_of = true;
            return Use{name_of(owner), name_of(requests[i]), requests[i].posted};
        }
    }
    return std::nullopt;
}

// A request of a device at work that USES something. Null: there is none.
template<typename Uses>
std::optional<Use> find_use(const ibv_context* context, Uses&& uses) {
    const auto at_work = Registry::instance().pairs.all(
        [&](const QueuePair& pair) { return pair.context->verbs == context && is_at_work(pair); });
    for (const std::shared_ptr<QueuePair>& pair : at_work) {
        look_ahead(*pair->send_queue);
        look_ahead(*pair->receive_queue);
        const BothQueues queues(*pair);
        const LockGuard lock(pair->mutex);
        std::optional<Use> found = find_use(*pair, *pair, *pair->send_queue, pair->sends, uses);
        if (!found) {
            found = find_use(*pair, *pair, *pair->receive_queue, pair->receives, uses);
        }
        if (!found && pair->shared != nullptr) {
            const LockGuard shared_lock(pair->shared->mutex);
            found = find_use(*pair, *pair->shared, *pair->receive_queue, pair->shared->requests, uses);
        }
        if (found) {
            return found;
        }
    }
    return std::nullopt;
}

struct Left {
    std::string name;
    Place made = nullptr;
};

template<typename Records, typename Wanted, typename Name>
std::optional<Left> first_of(const Records& records, Wanted&& wanted, Name&& name) {
    const auto found = records.all(wanted);
    if (found.empty()) {
        return std::nullopt;
    }
    return Left{name(*found.front()), found.front()->made};
}

std::optional<Left> user_of(const ibv_pd* pd) {
    Registry& all = Registry::instance();
    const auto is_its = [pd](const auto& record) { return record.pd == pd; };
    const auto named = [](const auto& record) { return name_of(record); };
    std::optional<Left> found = first_of(all.regions, is_its, named);
    if (!found) {
        found = first_of(all.pairs, is_its, named);
    }
    if (!found) {
        found = first_of(all.shared_queues, is_its, named);
    }
    if (!found) {
        found = first_of(all.address_handles, is_its,
                         [](const AddressHandle&) { return std::string("an address handle"); });
    }
    if (!found) {
        found = first_of(
            all.domains, [pd](const Domain& domain) { return domain.root == pd && domain.pd != pd; },
            [](const Domain&) { return std::string("a parent domain"); });
    }
    return found;
}

void tell_in_use(const std::string& object, const std::string& call, const std::optional<Left>& user,
                 Place place) noexcept {
    tell("object-in-use",
         {{"it was to be destroyed", place}, {"its user was made", user ? user->made : nullptr}}, [&] {
             return Told{object, call + " is refused: " + (user ? user->name : "another object") + " uses it",
                         "destroy objects in the reverse order of their creation, and look at what each call "
                         "returns"};
         });
}

// Its completions go with a queue pair.
void forget_ahead(Queue& queue, std::uint32_t pair_number) noexcept {
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

void tell_busy(const Domain& domain, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use("protection domain of " + device_of(domain.context), "ibv_dealloc_pd()",
                    user_of(domain.pd), place);
        return {};
    });
}

void tell_busy(const Region& region, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(region) + " of " + device_of(region.context), "ibv_dereg_mr()",
                    Left{"a memory window", nullptr}, place);
        return {};
    });
}

void tell_busy(const Queue& queue, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(queue), "ibv_destroy_cq()",
                    first_of(
                        Registry::instance().pairs,
                        [&](const QueuePair& pair) {
                            return pair.send_queue.get() == &queue || pair.receive_queue.get() == &queue;
                        },
                        [](const QueuePair& pair) { return name_of(pair); }),
                    place);
        return {};
    });
}

void tell_busy(const SharedQueue& queue, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(queue), "ibv_destroy_srq()",
                    first_of(
                        Registry::instance().pairs,
                        [&](const QueuePair& pair) { return pair.shared.get() == &queue; },
                        [](const QueuePair& pair) { return name_of(pair); }),
                    place);
        return {};
    });
}

void tell_busy(const Channel& channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use("completion channel of " + device_of(channel.context), "ibv_destroy_comp_channel()",
                    first_of(
                        Registry::instance().queues,
                        [&](const Queue& queue) { return queue.channel == channel.object; },
                        [](const Queue& queue) { return name_of(queue); }),
                    place);
        return {};
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
    if (state == IBV_QPS_RESET) {
        drop_all_requests(pair);
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
    forget_ahead(*pair.send_queue, pair.number);
    forget_ahead(*pair.receive_queue, pair.number);
    pair.send_queue->pairs.fetch_sub(1);
    pair.receive_queue->pairs.fetch_sub(1);
    if (was_at_work) {
        count_lost(*pair.send_queue, sends, place);
        count_lost(*pair.receive_queue, receives, place);
    }
}

} // namespace sluice::layers::check
