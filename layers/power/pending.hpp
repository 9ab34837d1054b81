// SPDX-License-Identifier: BSD-3-Clause
//
// What programs do in two halves: a flush, whose lines survive only once the same thread has drained.
//
// Thread safety: each thread has its own halves.
#pragma once

#include "core/coherence/segment.hpp"

namespace sluice::layers::power {

// Whether all of RANGE is of simulated files.
bool is_simulated(coherence::Range range) noexcept;

// A step: all of RANGE that is of simulated files survives, and what this thread has flushed before: the
// fence behind it is for both. False: nothing of RANGE is.
bool persist_range(coherence::Range range, const char* call) noexcept;
// RANGE survives, as it is now, from this thread's next drain() on. False: nothing of it is of simulated
// files.
bool flush_range(coherence::Range range) noexcept;
// A step if something was flushed. False: nothing was.
bool drain(const char* call) noexcept;

} // namespace sluice::layers::power
