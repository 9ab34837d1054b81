// SPDX-License-Identifier: BSD-3-Clause
//
// Cache lines on aarch64, by virtual address to the point of coherency. Linux allows both
// instructions in user mode (SCTLR_EL1.UCI) and every CPU has them.
//
//   operation    instruction                      fence before   fence after
//   clean        dc cvac (dc civac when forced)   none           dsb sy
//   invalidate   dc civac                         dsb sy         dsb sy
//   persist      dc cvap, else as clean           none           dsb sy
//   to device    (coherent device)                dmb oshst
//   from device  (coherent device)                dmb oshld
//
// Why these:
// * dc ivac, the pure invalidate, is for the kernel only. dc cvap aims at persistence, not at devices, and
//   costs more; a CPU without it (HWCAP_DCPOP) has its point of persistence at the point of coherency. QEMU
//   announces it in user mode and then refuses to execute it.
// * SLUICE_CACHEFLUSH chooses among what reaches the point of coherency. Where DCPOP is there, persistence
//   may lie behind that point: persist stays dc cvap, since any other choice would lose data.
// * Cache maintenance by address is in program order with accesses to the same line: no fence
//   before a clean.
// * Only dsb waits until maintenance is complete; dmb doesn't. It must be "sy": a master that
//   doesn't snoop is outside of the inner and the outer shareable domain. One per batch, never
//   one per line.
// * dsb before an invalidate keeps it after the load that saw the device's completion.
// * CPUs with certain errata trap dc cvac; the kernel then executes dc civac. Correct, and slow.
//
// Line size: CTR_EL0.DminLine, the smallest line of any data cache in the path. Where cores differ
// the kernel traps the read and answers for the whole system. Granule: CTR_EL0.CWG, the most that
// one write-back can cover; 0 there means that it isn't known, and then it is at most 2 KiB.
#include "core/coherence/aarch64.hpp"

#include <sys/auxv.h>

#include <algorithm>

#include "core/coherence/batch.hpp"
#include "core/coherence/choice.hpp"

namespace sluice::coherence {

namespace {

struct Cvac : LineInstruction {
    static constexpr const char* kName = "cvac";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("dc cvac, %0" ::"r"(at) : "memory"); }
};

struct Civac : LineInstruction {
    static constexpr const char* kName = "civac";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("dc civac, %0" ::"r"(at) : "memory"); }
};

// By its number: assemblers know the name only where they are told that the CPU has it.
struct Cvap : LineInstruction {
    static constexpr const char* kName = "cvap";
    static void line(const Ops&, std::uintptr_t at) {
        asm volatile("sys #3, c7, c12, #1, %0" ::"r"(at) : "memory");
    }
};

struct DsbSy {
    static constexpr const char* kName = "dsb sy";
    static void issue() { asm volatile("dsb sy" ::: "memory"); }
};

struct DmbOshst {
    static constexpr const char* kName = "dmb oshst";
    static void issue() { asm volatile("dmb oshst" ::: "memory"); }
};

struct DmbOshld {
    static constexpr const char* kName = "dmb oshld";
    static void issue() { asm volatile("dmb oshld" ::: "memory"); }
};

constexpr std::size_t kLargestGranule = 2048;
constexpr std::uint64_t kHwcapDcpop = 1u << 16; // of the kernel's <asm/hwcap.h>

// Fields of CTR_EL0 are logarithms of a number of 4-byte words.
std::size_t bytes_in_field(std::uint64_t ctr_el0, unsigned lowest_bit) {
    return std::size_t{4} << (ctr_el0 >> lowest_bit & 0xf);
}

} // namespace

CpuFacts read_facts() noexcept {
    CpuFacts facts;
    asm("mrs %0, ctr_el0" : "=r"(facts.ctr_el0));
    facts.hwcap = getauxval(AT_HWCAP);
    return facts;
}

Result<Ops> choose(const CpuFacts& facts, std::string_view forced) {
    constexpr Candidate kCandidates[] = {{Cvac::kName, true}, {Civac::kName, true}};
    return choose_candidate(kCandidates, forced).and_then([&](std::size_t choice) -> Result<Ops> {
        const std::size_t line_bytes = bytes_in_field(facts.ctr_el0, 16);
        const bool granule_known = (facts.ctr_el0 >> 24 & 0xf) != 0;
        const std::size_t granule = granule_known ? bytes_in_field(facts.ctr_el0, 24) : kLargestGranule;
        const LineOp clean = choice == 0 ? clean_op<Cvac>() : clean_op<Civac>();
        return Ops{
            .clean = clean,
            .invalidate = invalidate_op<Civac>(),
            .before_clean = kNoFence,
            .after_clean = fence<DsbSy>(),
            .before_invalidate = fence<DsbSy>(),
            .after_invalidate = fence<DsbSy>(),
            .line_bytes = line_bytes,
            .granule_bytes = std::max(line_bytes, granule),
            .context = nullptr,
            .persist = (facts.hwcap & kHwcapDcpop) != 0 ? clean_op<Cvap>() : clean,
            .line_source = "CTR_EL0",
        };
    });
}

Result<Ops> choose_for_this_cpu(std::string_view forced) {
    return choose(read_facts(), forced);
}

const Barriers& native_barriers() noexcept {
    static constexpr Barriers kBarriers{.to_device = barrier<DmbOshst>(), .from_device = barrier<DmbOshld>()};
    return kBarriers;
}

} // namespace sluice::coherence
