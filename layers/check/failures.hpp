// SPDX-License-Identifier: BSD-3-Clause
//
// Requests that failed by a mistake: what is known of the cause. A request that was flushed, or got no
// answer, tells nothing of the program.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

void tell_failure(const QueuePair& pair, const Request& request, ibv_wc_status status, Place place) noexcept;

} // namespace sluice::layers::check
