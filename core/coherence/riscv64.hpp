// SPDX-License-Identifier: BSD-3-Clause
//
// The seam between a riscv64 CPU and the choice of its instructions. Tests fill the facts in as
// the kernel would report them; everything behind them is the real code.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

struct CpuFacts {
    int hwprobe_errno = 0;                // why riscv_hwprobe() gave nothing; 0 when it did
    std::uint64_t ima_ext_0 = 0;          // its key 4; bit 55: Zicbom, on every hart and in user mode
    std::uint64_t zicbom_block_bytes = 0; // its key 12; 0 where the kernel doesn't know the key
};

CpuFacts read_facts() noexcept;

Result<Ops> choose(const CpuFacts& facts, std::string_view forced);

} // namespace sluice::coherence
