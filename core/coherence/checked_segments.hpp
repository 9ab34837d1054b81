// SPDX-License-Identifier: BSD-3-Clause
//
// The loop over the segments of a batch, each checked against the live regions.
//
// It lives in a header because it is compiled once for each cache instruction, in
// core/coherence/<architecture>.cpp: the check of the next segment then runs while the lines of the
// last one are on their way. There it must not store anything between two lines, not even a
// register that had no room; hence its state is what stands in for_each_checked() and no more.
#pragma once

#include <cstdint>

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
    std::uint32_t known = 0; // the context whose bounds we have; 0 is nobody's
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

} // namespace sluice::coherence
