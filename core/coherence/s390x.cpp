// SPDX-License-Identifier: BSD-3-Clause
//
// s390x: the channel subsystem and PCI take part in the coherence of storage. There is no cache
// instruction and no need for one; what is left is order.
//
//   operation    instruction    fence before   fence after
//   clean        nothing        none           bcr 15,0
//   invalidate   nothing        bcr 15,0       bcr 15,0
//   to device    (always)       bcr 15,0
//   from device  (always)       bcr 15,0
//
// bcr 15,0 serialises on every model; the faster bcr 14,0 isn't everywhere. The line of 256 bytes
// is published so that buffers don't share lines needlessly.
#include "core/coherence/s390x.hpp"

#include "core/coherence/batch.hpp"
#include "core/coherence/choice.hpp"

namespace sluice::coherence {

namespace {

struct Bcr15 {
    static constexpr const char* kName = "bcr 15,0";
    static void issue() { asm volatile("bcr 15,0" ::: "memory"); }
};

void issue_nothing(const Ops&, LineRun) noexcept {}

template<Edges kEdges>
BatchResult only_check(const Ops&, Batch& batch) noexcept {
    return for_each_checked<kEdges>(batch, [](std::uintptr_t, std::uintptr_t) {});
}

void issue_no_ranges(const Ops&, const Range*, std::uint64_t) noexcept {}

constexpr LineOp kCoherentClean{"nothing: coherent", issue_nothing, only_check<Edges::kIgnored>,
                                issue_no_ranges};
constexpr LineOp kCoherentInvalidate{"nothing: coherent", issue_nothing, only_check<Edges::kWatched>,
                                     issue_no_ranges};
constexpr std::size_t kLineBytes = 256;

} // namespace

Result<Ops> choose(const CpuFacts&, std::string_view forced) {
    if (!forced.empty()) {
        return Error::format(
            ErrorKind::kInvalidArgument, 0,
            "SLUICE_CACHEFLUSH=%.*s: s390x has no cache instructions to choose from; unset it",
            static_cast<int>(forced.size()), forced.data());
    }
    return Ops{
        .clean = kCoherentClean,
        .invalidate = kCoherentInvalidate,
        .before_clean = kNoFence,
        .after_clean = fence<Bcr15>(),
        .before_invalidate = fence<Bcr15>(),
        .after_invalidate = fence<Bcr15>(),
        .line_bytes = kLineBytes,
        .granule_bytes = kLineBytes,
        .context = nullptr,
        .line_source = "architecture",
    };
}

Result<Ops> choose_for_this_cpu(std::string_view forced) {
    return choose(read_facts(), forced);
}

const Barriers& native_barriers() noexcept {
    static constexpr Barriers kBarriers{.to_device = barrier<Bcr15>(), .from_device = barrier<Bcr15>()};
    return kBarriers;
}

} // namespace sluice::coherence
