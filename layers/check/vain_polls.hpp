// SPDX-License-Identifier: BSD-3-Clause
//
// A thread that polls for the end of requests that never asked for a completion.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// This thread is about to send requests with completions in QUEUE.
void take_sending(Queue& queue) noexcept;
// A poll of QUEUE brought COUNT completions.
void take_poll(Queue& queue, int count) noexcept;

} // namespace sluice::layers::check
