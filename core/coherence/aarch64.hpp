// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between an aarch64 CPU and the choice of its instructions. Tests fill the facts in as
// a CPU would report them; everything behind them is the real code.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

struct CpuFacts {
    std::uint64_t ctr_el0 = 0; // the cache type register, as user mode reads it
    std::uint64_t hwcap = 0;   // what the kernel says the CPU has
};

CpuFacts read_facts() noexcept;

Result<Ops> choose(const CpuFacts& facts, std::string_view forced);

} // namespace sluice::coherence
