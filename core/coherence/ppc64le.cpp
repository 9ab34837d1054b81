// SPDX-License-Identifier: BSD-3-Clause
//
// Cache blocks on ppc64le. Both instructions are in the base architecture and in user mode.
//
//   operation    instruction                  fence before   fence after
//   clean        dcbst (dcbf when forced)     none           sync
//   invalidate   dcbf                         sync           sync
//   to device    (coherent device)            sync
//   from device  (coherent device)            lwsync
//
// Why these:
// * dcbi, the pure invalidate, is for the kernel only.
// * dcbst and dcbf are ordered after older stores to their block; sync (the heavy one) waits for
//   them and puts them before the store that tells the device. lwsync doesn't order them.
// * There is no persist: dcbstps and phwsync, which it takes, could be neither run nor looked at here.
// * IBM's servers snoop; this matters to devices that opted out and to simulated ones.
//
// Block size: AT_DCACHEBSIZE, or AT_L1D_CACHEGEOMETRY where that is missing. Granule: one block.
#include "core/coherence/ppc64le.hpp"

#include <sys/auxv.h>

#include <bit>

#include "core/coherence/batch.hpp"
#include "core/coherence/choice.hpp"

namespace sluice::coherence {

namespace {

struct Dcbst : LineInstruction {
    static constexpr const char* kName = "dcbst";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("dcbst 0, %0" ::"r"(at) : "memory"); }
};

struct Dcbf : LineInstruction {
    static constexpr const char* kName = "dcbf";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("dcbf 0, %0" ::"r"(at) : "memory"); }
};

struct Sync {
    static constexpr const char* kName = "sync";
    static void issue() { asm volatile("sync" ::: "memory"); }
};

struct Lwsync {
    static constexpr const char* kName = "lwsync";
    static void issue() { asm volatile("lwsync" ::: "memory"); }
};

// From the kernel's <asm/auxvec.h>.
constexpr unsigned long kAtDcachebsize = 19;
constexpr unsigned long kAtL1dCachegeometry = 43;

} // namespace

CpuFacts read_facts() noexcept {
    return {getauxval(kAtDcachebsize), getauxval(kAtL1dCachegeometry)};
}

Result<Ops> choose(const CpuFacts& facts, std::string_view forced) {
    const std::uint64_t block =
        facts.dcache_block_bytes != 0 ? facts.dcache_block_bytes : facts.l1d_geometry & 0xffff;
    if (!std::has_single_bit(block)) {
        return Error(
            ErrorKind::kNotSupported,
            "the kernel reports no size of data cache blocks (AT_DCACHEBSIZE, AT_L1D_CACHEGEOMETRY): "
            "cleaning with a guessed size would miss lines");
    }
    constexpr Candidate kCandidates[] = {{Dcbst::kName, true}, {Dcbf::kName, true}};
    return choose_candidate(kCandidates, forced).and_then([&](std::size_t choice) -> Result<Ops> {
        return Ops{
            .clean = choice == 0 ? clean_op<Dcbst>() : clean_op<Dcbf>(),
            .invalidate = invalidate_op<Dcbf>(),
            .before_clean = kNoFence,
            .after_clean = fence<Sync>(),
            .before_invalidate = fence<Sync>(),
            .after_invalidate = fence<Sync>(),
            .line_bytes = block,
            .granule_bytes = block,
            .context = nullptr,
            .line_source = "auxiliary vector",
        };
    });
}

Result<Ops> choose_for_this_cpu(std::string_view forced) {
    return choose(read_facts(), forced);
}

const Barriers& native_barriers() noexcept {
    static constexpr Barriers kBarriers{.to_device = barrier<Sync>(), .from_device = barrier<Lwsync>()};
    return kBarriers;
}

} // namespace sluice::coherence
