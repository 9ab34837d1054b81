// SPDX-License-Identifier: BSD-3-Clause
//
// Cache lines on x86-64. All of it works in user mode, also in a guest; a flush needs the right
// to read the page and faults like a load.
//
//   operation    instruction                          fence before   fence after
//   clean        clwb, or clflushopt, or clflush      none           sfence
//   invalidate   clflushopt, or clflush               mfence         mfence
//   persist      as clean                             none           sfence
//   all, on AMD and Hygon without clflushopt          mfence         mfence
//   to device    (coherent device)                    the compiler only: stores are in order
//   from device  (coherent device)                    the compiler only: loads are in order
//
// Why these:
// * clwb may leave the line in the cache, clflushopt and clflush drop it: the next reader of
//   cleaned data pays six to ten times as much for a dropped line. Because clwb may keep the line
//   it is never an invalidate. It may also drop it: nothing relies on either.
// * clwb and clflushopt are ordered after older stores to the same line, hence no fence before a
//   clean. They are ordered with nothing else but fences and locked operations: sfence is what
//   puts them before the store that tells the device (a doorbell).
// * Loads are not ordered with them. A younger load may be satisfied before an older flush, so
//   an invalidate needs mfence after it, and mfence before it so that the flush isn't early with
//   respect to the load that saw the device's completion. sfence doesn't order loads.
// * AMD parts before clflushopt (and Hygon, whose parts are AMD's) order clflush with nothing
//   but mfence.
// * Intel's Atom cores from Bay Trail on may let mfence pass the last clflush; flushing the last
//   line once more makes it wait. The kernel's graphics drivers and Mesa do the same.
// * What a clean has written back is with the memory controller, which is inside the power-fail domain
//   of platforms with persistent memory.
//
// Line size: CPUID 1 EBX[15:8] * 8. Granule: one line; caches here have lines of one size.
#include "core/coherence/x86_64.hpp"

#include <cpuid.h>
#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/coherence/batch.hpp"
#include "core/coherence/choice.hpp"

namespace sluice::coherence {

namespace {

struct Clwb : LineInstruction {
    static constexpr const char* kName = "clwb";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("clwb (%0)" ::"r"(at) : "memory"); }
};

struct Clflushopt : LineInstruction {
    static constexpr const char* kName = "clflushopt";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("clflushopt (%0)" ::"r"(at) : "memory"); }
};

struct Clflush : LineInstruction {
    static constexpr const char* kName = "clflush";
    static void line(const Ops&, std::uintptr_t at) { asm volatile("clflush (%0)" ::"r"(at) : "memory"); }
};

// Four stores fill a line, so that it leaves the CPU as a whole.
void copy_past_caches(void* to, const void* from, std::size_t lines) noexcept {
    auto* target = static_cast<__m128i*>(to);
    const auto* source = static_cast<const __m128i*>(from);
    for (const __m128i* const end = target + lines * 4; target != end; target += 4, source += 4) {
        const __m128i a = _mm_loadu_si128(source);
        const __m128i b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2);
        const __m128i d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
}

struct Sfence {
    static constexpr const char* kName = "sfence";
    static void issue() { asm volatile("sfence" ::: "memory"); }
};

struct Mfence {
    static constexpr const char* kName = "mfence";
    static void issue() { asm volatile("mfence" ::: "memory"); }
};

// For Atom.
struct ClflushLastTwice : Clflush {
    static constexpr const char* kName = "clflush, last line twice";
    static void after_last(const Ops& ops, std::uintptr_t at) { line(ops, at); }
};

struct ClflushoptLastTwice : Clflushopt {
    static constexpr const char* kName = "clflushopt, last line twice";
    static void after_last(const Ops& ops, std::uintptr_t at) { line(ops, at); }
};

constexpr std::size_t kStreamedLine = 64;
constexpr LineCopy kCopyPastCaches{"movntdq", copy_past_caches, 512};

constexpr std::uint32_t kLeaf1Clflush = 1u << 19;
constexpr std::uint32_t kLeaf7Clflushopt = 1u << 23;
constexpr std::uint32_t kLeaf7Clwb = 1u << 24;

bool vendor_is(const CpuFacts& facts, const char (&name)[13]) {
    return std::memcmp(facts.vendor.data(), name, facts.vendor.size()) == 0;
}

bool is_amd_or_hygon(const CpuFacts& facts) {
    return vendor_is(facts, "AuthenticAMD") || vendor_is(facts, "HygonGenuine");
}

// Silvermont, Airmont, Goldmont and Tremont parts, by their model in family 6.
bool is_atom(const CpuFacts& facts) {
    constexpr std::array<std::uint32_t, 13> kModels{0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x5c, 0x5d,
                                                    0x5f, 0x75, 0x7a, 0x86, 0x96, 0x9c};
    const std::uint32_t family = facts.signature >> 8 & 0xf;
    const std::uint32_t model = (facts.signature >> 4 & 0xf) | (facts.signature >> 12 & 0xf0);
    return vendor_is(facts, "GenuineIntel") && family == 6 &&
           std::ranges::find(kModels, model) != kModels.end();
}

enum Choice : std::size_t { kClwb, kClflushopt, kClflush };

LineOp clean_with(std::size_t choice) {
    switch (choice) {
    case kClwb:
        return clean_op<Clwb>();
    case kClflushopt:
        return clean_op<Clflushopt>();
    default:
        return clean_op<Clflush>();
    }
}

// CHOICE is what cleans; clwb can't invalidate, so the best of the others stands in for it.
LineOp invalidate_with(std::size_t choice, const CpuFacts& facts) {
    const bool has_clflushopt = (facts.leaf7_ebx & kLeaf7Clflushopt) != 0;
    const bool weaker = choice == kClflush || !has_clflushopt;
    if (is_atom(facts)) {
        return weaker ? invalidate_op<ClflushLastTwice>() : invalidate_op<ClflushoptLastTwice>();
    }
    return weaker ? invalidate_op<Clflush>() : invalidate_op<Clflushopt>();
}

} // namespace

CpuFacts read_facts() noexcept {
    CpuFacts facts;
    std::uint32_t highest = 0;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
    std::uint32_t d = 0;
    __cpuid(0, highest, b, c, d);
    const std::uint32_t vendor[3] = {b, d, c};
    std::memcpy(facts.vendor.data(), vendor, sizeof vendor);
    __cpuid(1, facts.signature, facts.leaf1_ebx, c, facts.leaf1_edx);
    if (highest >= 7) {
        __cpuid_count(7, 0, a, facts.leaf7_ebx, c, d);
    }
    return facts;
}

Result<Ops> choose(const CpuFacts& facts, std::string_view forced) {
    const std::size_t line_bytes = (facts.leaf1_ebx >> 8 & 0xff) * std::size_t{8};
    if ((facts.leaf1_edx & kLeaf1Clflush) == 0 || !std::has_single_bit(line_bytes)) {
        return Error(ErrorKind::kNotSupported, "this CPU reports no clflush, or no line size for it (CPUID 1 "
                                               "EDX, EBX): its caches can't be flushed in user "
                                               "mode, so a device that doesn't snoop them can't be used");
    }
    const Candidate candidates[] = {
        {Clwb::kName, (facts.leaf7_ebx & kLeaf7Clwb) != 0},
        {Clflushopt::kName, (facts.leaf7_ebx & kLeaf7Clflushopt) != 0},
        {Clflush::kName, true},
    };
    return choose_candidate(candidates, forced).and_then([&](std::size_t choice) -> Result<Ops> {
        const bool weakly_ordered = is_amd_or_hygon(facts) && !candidates[kClflushopt].present;
        return Ops{
            .clean = clean_with(choice),
            .invalidate = invalidate_with(choice, facts),
            .before_clean = weakly_ordered ? fence<Mfence>() : kNoFence,
            .after_clean = weakly_ordered ? fence<Mfence>() : fence<Sfence>(),
            .before_invalidate = fence<Mfence>(),
            .after_invalidate = fence<Mfence>(),
            .line_bytes = line_bytes,
            .granule_bytes = line_bytes,
            .context = nullptr,
            .persist = clean_with(choice),
            .copy = line_bytes == kStreamedLine ? kCopyPastCaches : LineCopy{"none", nullptr, 0},
            .line_source = "CPUID 1",
        };
    });
}

Result<Ops> choose_for_this_cpu(std::string_view forced) {
    return choose(read_facts(), forced);
}

const Barriers& native_barriers() noexcept {
    static constexpr Barriers kBarriers{.to_device = kCompilerBarrier, .from_device = kCompilerBarrier};
    return kBarriers;
}

} // namespace sluice::coherence
