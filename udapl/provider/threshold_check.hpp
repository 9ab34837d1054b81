// SPDX-License-Identifier: BSD-3-Clause
//
// A wait for several events, some of which never come, for `sluice check --pedantic`.
//
// Thread safety: may be called from any thread.
#pragma once

#include <cstddef>

namespace sluice::dapl {

// A wait for THRESHOLD events has ended by its time, while THERE of them were there, and SUPPRESSED transfers
// have ended meanwhile that make no event.
void check_threshold(std::size_t threshold, std::size_t there, std::size_t suppressed) noexcept;

} // namespace sluice::dapl
