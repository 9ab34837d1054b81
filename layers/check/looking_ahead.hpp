// SPDX-License-Identifier: BSD-3-Clause
//
// Completions that are taken before the program polls them, and given to it when it does.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// Takes what lies in QUEUE, for the program's next poll, so that it can be looked at: whether a request has
// ended of which the program knows by other means. Not of a queue that is polled in steps.
void look_ahead(Queue& queue) noexcept;

} // namespace sluice::layers::check
