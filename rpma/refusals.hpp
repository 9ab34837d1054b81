// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice check` is told of calls that librpma refuses for a mistake of the program's. The program has
// RPMA_E_INVAL, which doesn't say which of its arguments is meant.
//
// Thread safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::rpma::refusals {

// A request of COUNT pieces, where the connection was made for MOST.
void tell_too_many_pieces(std::size_t count, std::size_t most) noexcept;
// An atomic write to ADDRESS at the peer.
void tell_misaligned(std::uint64_t address) noexcept;

} // namespace sluice::rpma::refusals
