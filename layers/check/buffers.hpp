// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of requests while a device uses it. Whole pages are protected; what else is sent has a checksum
// at the post, which has to be the same at the completion. `--quick` has none of this.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check::buffers {

// The device may use REQUEST's memory from now on.
void hold(Request& request) noexcept;
// It ended, with success or not, and its completion was polled at PLACE.
void end(const QueuePair& pair, Request& request, bool is_right, Place place) noexcept;
// It ended otherwise: not accepted, or with its queue pair.
void release(Request& request) noexcept;

} // namespace sluice::layers::check::buffers
