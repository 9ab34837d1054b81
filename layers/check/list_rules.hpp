// SPDX-License-Identifier: BSD-3-Clause
//
// Lists of requests that were accepted in part: what goes on with them.
//
// With the queue pair's lock held.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// LIST is about to be posted at PLACE.
void check_list(QueuePair& pair, const ibv_send_wr* list, Place place) noexcept;
// The first ACCEPTED of LIST were posted, and BAD wasn't.
void take_refused_list(QueuePair& pair, const ibv_send_wr* list, const ibv_send_wr* bad,
                       std::size_t accepted) noexcept;

} // namespace sluice::layers::check
