// SPDX-License-Identifier: BSD-3-Clause
//
// What each <architecture>.cpp promises to the rest of this folder, and what they share when
// they choose an instruction.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/result.hpp"

namespace sluice::coherence {

struct Ops; // cacheflush.hpp

// Defined by the architecture: probes this CPU and chooses under FORCED (empty: the best).
Result<Ops> choose_for_this_cpu(std::string_view forced);

struct Candidate {
    const char* name;
    bool present;
};

// The index of the instruction to use: of the CANDIDATES, best first, the one that FORCED names,
// or the first that is present. At least one must be present. Errors as native_ops().
Result<std::size_t> choose_candidate(std::span<const Candidate> candidates, std::string_view forced);

} // namespace sluice::coherence
