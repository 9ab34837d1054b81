// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between an x86-64 CPU and the choice of its instructions. Tests fill the facts in as
// a CPU would report them; everything behind them is the real code.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

// What CPUID says, as it says it.
struct CpuFacts {
    std::array<char, 12> vendor{}; // leaf 0: EBX, EDX, ECX
    std::uint32_t signature = 0;   // leaf 1: EAX, family and model
    std::uint32_t leaf1_ebx = 0;   // bits 15:8: CLFLUSH line size in units of 8 bytes
    std::uint32_t leaf1_edx = 0;   // bit 19: CLFLUSH
    std::uint32_t leaf7_ebx = 0;   // bit 23: CLFLUSHOPT, bit 24: CLWB; 0 where there is no leaf 7
};

CpuFacts read_facts() noexcept;

Result<Ops> choose(const CpuFacts& facts, std::string_view forced);

} // namespace sluice::coherence
