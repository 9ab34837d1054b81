// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between a ppc64le CPU and the choice of its instructions. Tests fill the facts in as
// the kernel would report them; everything behind them is the real code.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

// The auxiliary vector; 0 where the kernel gave none.
struct CpuFacts {
    std::uint64_t dcache_block_bytes = 0; // AT_DCACHEBSIZE
    std::uint64_t l1d_geometry = 0;       // AT_L1D_CACHEGEOMETRY: line size in the low 16 bits
};

CpuFacts read_facts() noexcept;

Result<Ops> choose(const CpuFacts& facts, std::string_view forced);

} // namespace sluice::coherence
