// SPDX-License-Identifier: BSD-3-Clause
//
// An XRC domain (IBTA annex A14): the shared receive queues that its receiving queue pairs may use. Each
// request of a peer names one of them. So a queue that is gone, or belongs to another domain, isn't found.
// Not thread safe.
#pragma once

#include <algorithm>
#include <vector>

#include "roce/engine/completion_queue.hpp"
#include "roce/engine/receive_queue.hpp"

namespace sluice::roce::engine {

// What a message needs at its receiver.
struct SharedReceives {
    std::uint32_t number = 0;
    std::uint32_t pd = 0; // of the receives, and of what one-sided requests touch
    ReceiveQueue* receives = nullptr;
    CompletionQueue* cq = nullptr;
    void* owner = nullptr; // the caller's own
    bool reached_limit = false;
};

class XrcDomain {
  public:
    // Its number is no other one's here. May throw bad_alloc.
    void add(const SharedReceives& queue) { queues_.insert(place_of(queue.number), queue); }
    void remove(std::uint32_t number) noexcept {
        const auto at = place_of(number);
        if (at != queues_.end() && at->number == number) {
            queues_.erase(at);
        }
    }
    // Null: there is none. Holds until the next add() or remove().
    SharedReceives* find(std::uint32_t number) noexcept {
        const auto at = place_of(number);
        return at != queues_.end() && at->number == number ? &*at : nullptr;
    }
    template<typename Visit>
    void for_each(Visit&& visit) {
        std::ranges::for_each(queues_, visit);
    }

  private:
    std::vector<SharedReceives>::iterator place_of(std::uint32_t number) noexcept {
        return std::ranges::lower_bound(queues_, number, {}, &SharedReceives::number);
    }

    std::vector<SharedReceives> queues_; // by their numbers
};

} // namespace sluice::roce::engine
