// SPDX-License-Identifier: BSD-3-Clause
//
// Datagrams from this process to itself: a device drops those that don't fit their receiver, and says
// nothing.
#pragma once

#include "layers/check/objects.hpp"
#include "layers/check/posting.hpp"

namespace sluice::layers::check {

// Before a message is posted to PAIR at PLACE, with no lock held.
void check_datagram(const QueuePair& pair, const SendParts& parts, Place place) noexcept;

} // namespace sluice::layers::check
