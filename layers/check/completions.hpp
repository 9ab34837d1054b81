// SPDX-License-Identifier: BSD-3-Clause
//
// Completions as they are polled: which request each is of, and the rules about how it ended.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

struct Completion {
    std::uint64_t id = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t pair_number = 0;
    bool is_receive = false; // as far as the status is success: otherwise nobody says
};

// With the completion queue's lock held.
void take_completion(Queue& queue, const Completion& completion, Place place) noexcept;
// A poll brought nothing.
void take_empty_poll(Queue& queue, Place place) noexcept;

// All requests of a queue pair end without completions.
void drop_all_requests(QueuePair& pair) noexcept;

} // namespace sluice::layers::check
