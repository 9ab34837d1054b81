// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/requests.hpp"

#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace sluice::tools::trace {

namespace {

constexpr std::uint8_t kWcReceive = 128; // IBV_WC_RECV, a bit

enum class Direction : std::uint8_t { kSends, kReceives, kShared };

struct QueueKey {
    std::uint32_t device = 0;
    std::uint32_t number = 0; // of the queue pair, or the tag of the shared receive queue
    Direction direction = Direction::kSends;
    bool operator<(const QueueKey& other) const {
        return std::tie(device, number, direction) < std::tie(other.device, other.number, other.direction);
    }
};

// Each request is put in and taken out once, so that a recording of whatever kind is read in time that grows
// with its length.
class RequestQueue {
  public:
    void add(std::uint64_t id, std::size_t request, bool has_completion) {
        (has_completion ? signaled_ : unsignaled_by_id_)[id].push_back(request);
        if (!has_completion) {
            unsignaled_.push_back(request);
        }
    }

    // The oldest that a completion with ID can be of.
    std::optional<std::size_t> take(std::uint64_t id, bool is_right, const std::vector<TracedRequest>& all) {
        const std::optional<std::size_t> signaled = first_open(signaled_, id, all);
        const std::optional<std::size_t> other = first_open(unsignaled_by_id_, id, all);
        const bool takes_signaled = signaled && (is_right || !other || *signaled < *other);
        return takes_signaled ? take_first(signaled_, id)
               : other        ? take_first(unsignaled_by_id_, id)
                              : std::nullopt;
    }

    // Those before REQUEST that have no completion: calls END for each.
    template<typename End>
    void pass(std::size_t request, End&& end) {
        for (; !unsignaled_.empty() && unsignaled_.front() < request; unsignaled_.pop_front()) {
            end(unsignaled_.front());
        }
    }

  private:
    using ById = std::unordered_map<std::uint64_t, std::deque<std::size_t>>;

    static std::optional<std::size_t> first_open(ById& by_id, std::uint64_t id,
                                                 const std::vector<TracedRequest>& all) {
        const auto found = by_id.find(id);
        if (found == by_id.end()) {
            return std::nullopt;
        }
        std::deque<std::size_t>& list = found->second;
        while (!list.empty() && all[list.front()].ending != Ending::kOpen) {
            list.pop_front();
        }
        if (list.empty()) {
            by_id.erase(found);
            return std::nullopt;
        }
        return list.front();
    }
    static std::optional<std::size_t> take_first(ById& by_id, std::uint64_t id) {
        const auto found = by_id.find(id);
        const std::size_t first = found->second.front();
        found->second.pop_front();
        if (found->second.empty()) {
            by_id.erase(found);
        }
        return first;
    }

    ById signaled_;
    ById unsignaled_by_id_;
    std::deque<std::size_t> unsignaled_;
};

struct PairFacts {
    bool signals_all = false;
    std::uint32_t shared = 0; // the tag of its shared receive queue; 0: none
};

class RequestMatcher {
  public:
    explicit RequestMatcher(const Recording& recording) : events_(recording.events) {}

    Requests run() {
        for (std::size_t i = 0; i < events_.size(); ++i) {
            take(i);
        }
        return std::move(result_);
    }

  private:
    void take(std::size_t index) {
        const file::Event& event = events_[index].event;
        switch (event.kind) {
        case file::Kind::kPost:
            post(index, Direction::kSends);
            break;
        case file::Kind::kReceive:
            post(index, Direction::kReceives);
            break;
        case file::Kind::kSharedReceive:
            post(index, Direction::kShared);
            break;
        case file::Kind::kRefused:
            refuse(index);
            break;
        case file::Kind::kCompletion:
            complete(index);
            break;
        case file::Kind::kQueuePair:
            end_pair(index); // an earlier one of the same number
            pairs_[{event.device, event.queue_pair}] = {.signals_all = (event.flags & file::kSignaled) != 0,
                                                        .shared = event.bytes};
            break;
        case file::Kind::kQueuePairEnded:
            end_pair(index);
            break;
        case file::Kind::kNothing:
        case file::Kind::kHead:
        case file::Kind::kRegister:
        case file::Kind::kRegistered:
        case file::Kind::kDeregister:
        case file::Kind::kDeregistered:
        case file::Kind::kSync:
        case file::Kind::kSynced:
        case file::Kind::kConnection:
        case file::Kind::kDevice:
        case file::Kind::kUnseen:
            break;
        }
    }

    PairFacts facts_of(const file::Event& event) const {
        const auto found = pairs_.find({event.device, event.queue_pair});
        return found != pairs_.end() ? found->second : PairFacts{};
    }

    void post(std::size_t index, Direction direction) {
        const file::Event& event = events_[index].event;
        const bool has_completion = (event.flags & file::kSignaled) != 0 || facts_of(event).signals_all;
        const QueueKey key{event.device, event.queue_pair, direction};
        const std::size_t request = result_.all.size();
        result_.all.push_back({.post = index});
        queues_[key].add(event.id, request, has_completion);
        posted_[key][events_[index].thread].push_back(request);
    }

    void refuse(std::size_t index) {
        const file::Event& event = events_[index].event;
        const Direction direction = (event.flags & file::kOfShared) != 0     ? Direction::kShared
                                    : (event.flags & file::kOfReceives) != 0 ? Direction::kReceives
                                                                             : Direction::kSends;
        const auto found = posted_.find({event.device, event.queue_pair, direction});
        if (found == posted_.end()) {
            return;
        }
        std::vector<std::size_t>& posts = found->second[events_[index].thread];
        for (std::uint64_t left = event.id; left != 0 && !posts.empty(); --left) {
            const std::size_t request = posts.back();
            posts.pop_back();
            end(request, index, Ending::kRefused);
            const bool is_first = (events_[result_.all[request].post].event.flags & file::kFirst) != 0;
            if (event.id == file::kAllSince && is_first) {
                break;
            }
        }
    }

    void complete(std::size_t index) {
        const file::Event& event = events_[index].event;
        const bool is_right = event.status == 0;
        const bool is_receive = is_right && (event.code & kWcReceive) != 0;
        bool is_found = false;
        if ((event.flags & file::kNoQueuePair) == 0) {
            is_found = (!is_receive && complete_in(index, Direction::kSends)) ||
                       ((is_receive || !is_right) && complete_receive(index));
        }
        result_.unmatched += is_found ? 0 : 1;
    }

    bool complete_receive(std::size_t index) {
        return complete_in(index, facts_of(events_[index].event).shared != 0 ? Direction::kShared
                                                                             : Direction::kReceives);
    }

    bool complete_in(std::size_t index, Direction direction) {
        const file::Event& event = events_[index].event;
        const std::uint32_t number =
            direction == Direction::kShared ? facts_of(event).shared : event.queue_pair;
        const auto found = queues_.find({event.device, number, direction});
        if (found == queues_.end()) {
            return false;
        }
        const std::optional<std::size_t> request =
            found->second.take(event.id, event.status == 0, result_.all);
        if (!request) {
            return false;
        }
        end(*request, index, Ending::kCompleted);
        found->second.pass(*request, [&](std::size_t each) { end(each, index, Ending::kPassed); });
        return true;
    }

    // A queue pair's own requests end with it; those of a shared receive queue stay.
    void end_pair(std::size_t index) {
        const file::Event& event = events_[index].event;
        for (const Direction direction : {Direction::kSends, Direction::kReceives}) {
            const QueueKey key{event.device, event.queue_pair, direction};
            if (const auto posted = posted_.find(key); posted != posted_.end()) {
                for (const auto& [thread, posts] : posted->second) {
                    for (const std::size_t request : posts) {
                        end(request, index, Ending::kDestroyed);
                    }
                }
                posted_.erase(posted);
            }
            queues_.erase(key);
        }
        pairs_.erase({event.device, event.queue_pair});
    }

    void end(std::size_t request, std::size_t index, Ending how) {
        TracedRequest& ended = result_.all[request];
        if (ended.ending == Ending::kOpen) {
            ended.end = index;
            ended.ending = how;
        }
    }

    const std::vector<TracedEvent>& events_;
    Requests result_;
    std::map<QueueKey, RequestQueue> queues_;
    std::map<QueueKey, std::map<std::uint32_t, std::vector<std::size_t>>> posted_; // by thread
    std::map<std::pair<std::uint32_t, std::uint32_t>, PairFacts> pairs_;
};

} // namespace

Requests requests_of(const Recording& recording) {
    return RequestMatcher(recording).run();
}

const char* name_of_ending(Ending ending) {
    switch (ending) {
    case Ending::kOpen:
        return "open";
    case Ending::kCompleted:
        return "completed";
    case Ending::kPassed:
        return "a later one completed";
    case Ending::kRefused:
        return "refused";
    case Ending::kDestroyed:
        return "its queue pair was destroyed";
    }
    return "?";
}

} // namespace sluice::tools::trace
