// SPDX-License-Identifier: BSD-3-Clause
//
// The loop over a batch: each segment is checked against the live regions, then its lines are cleaned
// or invalidated. Beside it the loop over ranges that belong to no region, and below both the table
// entries that are made from them.
//
// It lives in a header because it is compiled once for each cache instruction, in
// <architecture>.cpp: the check of the next segment then runs while the lines of the last one are on
// their way. There it must not store anything between two lines, not even a register that had no
// room; hence its state is what stands in for_each_checked() and Issued, and no more.
//
// An instruction is a struct with a kName and a static line(ops, address); a fence is a struct
// with a kName and a static issue(). A table entry takes name and code from the same struct, so
// that they can't disagree: a test that reads the name knows what runs.
//
// The loops over lines are rolled and step by the line size of the table. Unrolling, prefetching
// and several streams at once were measured: none is faster, most are slower (docs/coherence.md).
#pragma once

#include <cstdint>

#include "core/coherence/cacheflush.hpp"
#include "core/coherence/region_table.hpp"
#include "core/coherence/segment.hpp"

namespace sluice::coherence {

// The engine's marks in Region::flags; the lower 16 bits are the caller's.
constexpr std::uint32_t kSharedHead = 1u << 30;
constexpr std::uint32_t kSharedTail = 1u << 31;
constexpr std::uint32_t kCallerFlags = 0xffff;

struct Batch {
    RegionTable::View regions;
    const Segment* first;
    std::uint64_t count;
    // Where the device wrote: how far apart owners must be, and what to do when they aren't.
    std::uint64_t granule_bytes = 1;
    bool refuse_shared_edges = false;
    std::uint64_t edges_met = 0;
};

enum class Edges : bool { kIgnored, kWatched };

// Whether the segment, which lies inside its region, may be done: false when it reaches into a
// granule that the region shares and the batch refuses that. Counts it in any case. Not inline: it
// is rare, and would take registers from the loop.
[[gnu::noinline]] inline bool passes_edges(Batch& batch, const Segment& segment,
                                           RegionTable::Bounds bounds) noexcept {
    const std::uint64_t mask = ~(batch.granule_bytes - 1);
    const std::uint64_t last = segment.address + (segment.length - 1);
    const std::uint64_t region_last = bounds.address + (bounds.length - 1);
    const bool head =
        (bounds.flags & kSharedHead) != 0 && (segment.address & mask) == (bounds.address & mask);
    const bool tail = (bounds.flags & kSharedTail) != 0 && (last & mask) == (region_last & mask);
    if (!head && !tail) {
        return true;
    }
    ++batch.edges_met;
    return !batch.refuse_shared_edges;
}

// Calls VISIT(address, length) for each segment that isn't empty, up to the first that is wrong.
template<Edges kEdges, typename Visit>
[[gnu::always_inline]] inline BatchResult for_each_checked(Batch& batch, Visit&& visit) {
    const RegionTable::View regions = batch.regions;
    const Segment* const end = batch.first + batch.count;
    std::uint32_t known = 0; // the context whose bounds we have; 0: none
    RegionTable::Bounds bounds{0, 0, 0};
    for (const Segment* segment = batch.first; segment != end; ++segment) {
        const std::uint64_t length = segment->length;
        if (length == 0) {
            continue;
        }
        SegmentFault fault = SegmentFault::kUnknownContext;
        const std::uint32_t context = segment->context;
        if (context == known || regions.bounds(context, bounds)) [[likely]] {
            known = context;
            const std::uint64_t address = segment->address;
            // Nothing here can wrap: the offset is compared only when the length fits, and an
            // address below the region gives an offset too large for any length.
            if (length <= bounds.length && address - bounds.address <= bounds.length - length) [[likely]] {
                fault = SegmentFault::kSharedEdge;
                if (kEdges == Edges::kIgnored || (bounds.flags & (kSharedHead | kSharedTail)) == 0 ||
                    passes_edges(batch, *segment, bounds)) [[likely]] {
                    visit(address, length);
                    continue;
                }
            } else if (context != 0) {
                fault = SegmentFault::kOutOfRange;
            }
        }
        return {static_cast<std::uint64_t>(segment - batch.first), fault};
    }
    return {0, SegmentFault::kNone};
}

// What an instruction's struct inherits.
struct LineInstruction {
    // Called once after the last line of a run or batch that had one.
    static void after_last(const Ops&, std::uintptr_t) {}
};

template<typename Instruction>
[[gnu::always_inline]] inline void issue_run(const Ops& ops, LineRun run, std::uintptr_t step) {
    for (std::uintptr_t at = run.first;; at += step) {
        Instruction::line(ops, at);
        if (at == run.last) {
            break; // compared before stepping: the step past the last line may wrap
        }
    }
}

template<typename Instruction>
void issue_one(const Ops& ops, LineRun run) noexcept {
    issue_run<Instruction>(ops, run, ops.line_bytes);
    Instruction::after_last(ops, run.last);
}

// No run: nothing overlaps it and nothing is next to it, because no line begins there.
constexpr LineRun kNothing{~std::uintptr_t{0}, ~std::uintptr_t{0}};

// Whether two runs overlap or have no line between them. A difference, not a sum: there is no
// line after the last one of the address space.
inline bool touches(LineRun a, LineRun b, std::uintptr_t step) {
    if (a.first > b.last) {
        return a.first - b.last == step;
    }
    return a.last >= b.first || b.first - a.last == step;
}

// DONE is the run of lines that were issued and haven't been left since, LATEST the last line that was
// issued.
struct Issued {
    LineRun done = kNothing;
    std::uintptr_t latest = kNothing.last;
};

// Calls VISIT(run) for what LINES adds to DONE at either end. So packed segments share their lines, no line
// waits for the next segment to be looked at, and nothing is sorted.
template<typename Visit>
[[gnu::always_inline]] inline void for_new_lines(LineRun lines, std::uintptr_t step, LineRun& done,
                                                 Visit&& visit) {
    if (lines.first >= done.first && lines.last <= done.last) {
        return;
    }
    if (!touches(lines, done, step)) {
        visit(lines);
        done = lines;
        return;
    }
    if (lines.last > done.last) {
        visit({done.last + step, lines.last});
        done.last = lines.last;
    }
    if (lines.first < done.first) {
        visit({lines.first, done.first - step});
        done.first = lines.first;
    }
}

template<typename Instruction>
[[gnu::always_inline]] inline void issue_new(const Ops& ops, LineRun lines, std::uintptr_t step,
                                             Issued& issued) {
    for_new_lines(
        lines, step, issued.done, [&](LineRun run) __attribute__((always_inline)) {
            issue_run<Instruction>(ops, run, step);
            issued.latest = run.last;
        });
}

template<typename Instruction>
[[gnu::always_inline]] inline void finish(const Ops& ops, const Issued& issued) {
    if (issued.latest != kNothing.last) {
        Instruction::after_last(ops, issued.latest);
    }
}

template<typename Instruction, Edges kEdges>
BatchResult issue_batch(const Ops& ops, Batch& batch) noexcept {
    const std::uintptr_t step = ops.line_bytes;
    Issued issued;
    const auto result = for_each_checked<kEdges>(
        batch, [&](std::uintptr_t address, std::uintptr_t length) __attribute__((always_inline)) {
            issue_new<Instruction>(ops, lines_of(address, length, step), step, issued);
        });
    finish<Instruction>(ops, issued);
    return result;
}

template<typename Instruction>
void issue_ranges(const Ops& ops, const Range* ranges, std::uint64_t count) noexcept {
    const std::uintptr_t step = ops.line_bytes;
    Issued issued;
    for (const Range* range = ranges; range != ranges + count; ++range) {
        if (range->length != 0) {
            issue_new<Instruction>(ops, lines_of(range->address, range->length, step), step, issued);
        }
    }
    finish<Instruction>(ops, issued);
}

template<typename F>
void issue_fence(const Ops&) noexcept {
    F::issue();
}

template<typename B>
void issue_barrier() noexcept {
    B::issue();
}

// A clean loses nothing on the edges of a region; only what invalidates looks at them.
template<typename Instruction>
constexpr LineOp clean_op() {
    return {Instruction::kName, issue_one<Instruction>, issue_batch<Instruction, Edges::kIgnored>,
            issue_ranges<Instruction>};
}

template<typename Instruction>
constexpr LineOp invalidate_op() {
    return {Instruction::kName, issue_one<Instruction>, issue_batch<Instruction, Edges::kWatched>,
            issue_ranges<Instruction>};
}

template<typename F>
constexpr Fence fence() {
    return {F::kName, issue_fence<F>};
}

template<typename B>
constexpr Barrier barrier() {
    return {B::kName, issue_barrier<B>};
}

constexpr Fence kNoFence{"none", nullptr};
constexpr Barrier kCompilerBarrier{"compiler", nullptr};

} // namespace sluice::coherence
