// SPDX-License-Identifier: BSD-3-Clause
//
// Cache blocks on riscv64: the Zicbom extension, where the kernel lets user mode have it.
//
//   operation    instruction                          fence before       fence after
//   clean        cbo.clean (cbo.flush when forced)    fence rw,rw        fence iorw,iorw
//   invalidate   cbo.flush                            fence iorw,iorw    fence iorw,iorw
//   persist      as clean                             fence rw,rw        fence iorw,iorw
//   to device    (coherent device)                    fence ow,ow
//   from device  (coherent device)                    fence ir,ir
//
// Why these:
// * cbo.inval drops dirty data and is never given to user mode: it traps, and must not be used.
// * A cache-block operation is ordered with accesses only by fences, hence one before a clean; "i" and
//   "o" order it with the loads and stores that talk to the device.
// * Linux enables the two for user mode only if every hart has them, and says so with one bit of
//   riscv_hwprobe(). Without that bit they trap, so there is no trying.
// * The cache controllers of older parts, and the vendors' own instructions from before Zicbom,
//   are for the kernel only. On such a CPU there is nothing that user mode can do.
// * The architecture has no point of persistence of its own; the kernel, too, cleans persistent memory by
//   cbo.clean.
//
// Block size: riscv_hwprobe(), the same on all harts. Granule: one block.
#include "core/coherence/riscv64.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "core/coherence/batch.hpp"
#include "core/coherence/choice.hpp"

namespace sluice::coherence {

namespace {

struct CboClean : LineInstruction {
    static constexpr const char* kName = "cbo.clean";
    static void line(const Ops&, std::uintptr_t at) {
        asm volatile(".option push\n.option arch, +zicbom\ncbo.clean (%0)\n.option pop" ::"r"(at) : "memory");
    }
};

struct CboFlush : LineInstruction {
    static constexpr const char* kName = "cbo.flush";
    static void line(const Ops&, std::uintptr_t at) {
        asm volatile(".option push\n.option arch, +zicbom\ncbo.flush (%0)\n.option pop" ::"r"(at) : "memory");
    }
};

struct FenceRwRw {
    static constexpr const char* kName = "fence rw,rw";
    static void issue() { asm volatile("fence rw,rw" ::: "memory"); }
};

struct FenceIorwIorw {
    static constexpr const char* kName = "fence iorw,iorw";
    static void issue() { asm volatile("fence iorw,iorw" ::: "memory"); }
};

struct FenceOwOw {
    static constexpr const char* kName = "fence ow,ow";
    static void issue() { asm volatile("fence ow,ow" ::: "memory"); }
};

struct FenceIrIr {
    static constexpr const char* kName = "fence ir,ir";
    static void issue() { asm volatile("fence ir,ir" ::: "memory"); }
};

// From the kernel's <asm/hwprobe.h>, which is newer than the headers we build with.
constexpr long kHwprobeSyscall = 258;
constexpr std::int64_t kKeyImaExt0 = 4;
constexpr std::int64_t kKeyZicbomBlockSize = 12;
constexpr std::uint64_t kImaExt0Zicbom = std::uint64_t{1} << 55;

struct HwprobePair {
    std::int64_t key; // set to -1 by a kernel that doesn't know it
    std::uint64_t value;
};

} // namespace

CpuFacts read_facts() noexcept {
    HwprobePair pairs[] = {{kKeyImaExt0, 0}, {kKeyZicbomBlockSize, 0}};
    CpuFacts facts;
    // No set of CPUs: the answer holds for all of them.
    if (syscall(kHwprobeSyscall, pairs, std::size_t{2}, std::size_t{0}, nullptr, 0u) != 0) {
        facts.hwprobe_errno = errno;
        return facts;
    }
    facts.ima_ext_0 = pairs[0].key == kKeyImaExt0 ? pairs[0].value : 0;
    facts.zicbom_block_bytes = pairs[1].key == kKeyZicbomBlockSize ? pairs[1].value : 0;
    return facts;
}

Result<Ops> choose(const CpuFacts& facts, std::string_view forced) {
    if (facts.hwprobe_errno != 0) {
        return Error(
            ErrorKind::kNotSupported,
            "this kernel has no riscv_hwprobe(), so it can't have enabled Zicbom (cbo.clean, cbo.flush) "
            "for user mode: a device that doesn't snoop the caches can't be used; a newer kernel may help",
            facts.hwprobe_errno);
    }
    if ((facts.ima_ext_0 & kImaExt0Zicbom) == 0) {
        return Error(
            ErrorKind::kNotSupported,
            "riscv_hwprobe() doesn't report Zicbom (cbo.clean, cbo.flush) for user mode on every hart: "
            "a device that doesn't snoop the caches can't be used");
    }
    if (!std::has_single_bit(facts.zicbom_block_bytes)) {
        return Error(
            ErrorKind::kNotSupported,
            "riscv_hwprobe() reports Zicbom, but not the size of its blocks: cleaning with a guessed size "
            "would miss lines");
    }
    constexpr Candidate kCandidates[] = {{CboClean::kName, true}, {CboFlush::kName, true}};
    return choose_candidate(kCandidates, forced).and_then([&](std::size_t choice) -> Result<Ops> {
        return Ops{
            .clean = choice == 0 ? clean_op<CboClean>() : clean_op<CboFlush>(),
            .invalidate = invalidate_op<CboFlush>(),
            .before_clean = fence<FenceRwRw>(),
            .after_clean = fence<FenceIorwIorw>(),
            .before_invalidate = fence<FenceIorwIorw>(),
            .after_invalidate = fence<FenceIorwIorw>(),
            .line_bytes = facts.zicbom_block_bytes,
            .granule_bytes = facts.zicbom_block_bytes,
            .context = nullptr,
            .persist = choice == 0 ? clean_op<CboClean>() : clean_op<CboFlush>(),
            .line_source = "riscv_hwprobe",
        };
    });
}

Result<Ops> choose_for_this_cpu(std::string_view forced) {
    return choose(read_facts(), forced);
}

const Barriers& native_barriers() noexcept {
    static constexpr Barriers kBarriers{.to_device = barrier<FenceOwOw>(),
                                        .from_device = barrier<FenceIrIr>()};
    return kBarriers;
}

} // namespace sluice::coherence
