// SPDX-License-Identifier: BSD-3-Clause
//
// Whether the header in front of a datagram is of IPv4 or of IPv6. rxe's completions don't say, and UCX up
// to 1.18 drops a datagram for which they don't. The header tells: it lies in the memory of the receive
// request, at the place that HeaderPlaces keeps.
#pragma once

#include <cstdint>

#include "provider/rxe/objects.hpp"

namespace sluice::provider::rxe {

// Writes into WC, as mlx5 does, of which version its datagram's header is: 1 for IPv6, 2 for IPv4. The caller
// has the queue's lock, and hands over each completion once, in their order.
void tell_header_type(Cq& cq, ibv_wc& wc) noexcept;
// The same in two steps, for a program that may never ask: where the header is, or 0, and what it says.
std::uint64_t header_place(Cq& cq, const ib_uverbs_wc& wc) noexcept;
std::uint8_t header_type_at(std::uint64_t place) noexcept;

} // namespace sluice::provider::rxe
