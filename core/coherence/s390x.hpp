// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between an s390x CPU and its table. There is nothing to find out: the architecture
// itself promises coherence. It exists so that every architecture is tested the same way.
#pragma once

#include <string_view>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

struct CpuFacts {};

inline CpuFacts read_facts() noexcept {
    return {};
}

Result<Ops> choose(const CpuFacts& facts, std::string_view forced);

} // namespace sluice::coherence
