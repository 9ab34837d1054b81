// SPDX-License-Identifier: BSD-3-Clause
//
// One entry of a batch, and what a batch gives back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::coherence {

// LENGTH bytes at ADDRESS inside the live region CONTEXT. A segment of length 0 is legal and its
// other members are never looked at.
//
// The layout is that of uDAPL 1.2's LMR triplet, so that a caller's array is used where it lies.
// may_alias (both of our compilers have it) makes reading such an array through this type
// defined, as reading through char is.
struct [[gnu::may_alias]] Segment {
    std::uint32_t context;
    std::uint32_t pad;
    std::uint64_t address;
    std::uint64_t length;
};

static_assert(sizeof(Segment) == 24 && offsetof(Segment, context) == 0 && offsetof(Segment, address) == 8 &&
              offsetof(Segment, length) == 16);

// LENGTH bytes at ADDRESS of memory that belongs to no region. It doesn't wrap; a length of 0 is legal.
struct [[gnu::may_alias]] Range {
    std::uintptr_t address;
    std::uint64_t length;
};

static_assert(sizeof(Range) == 16 && offsetof(Range, length) == 8);

enum class SegmentFault : std::uint32_t {
    kNone,
    kUnknownContext, // no live region has this context: never given out, or freed
    kOutOfRange,     // not entirely inside the region
    kSharedEdge,     // touches a granule that the region shares, and the edge policy refuses that
};

const char* to_string(SegmentFault fault) noexcept;

// What became of a batch. On a fault, INDEX is the first segment that is wrong; the segments
// before it were done and fenced, those from it on were not touched.
struct [[nodiscard]] BatchResult {
    std::uint64_t index;
    SegmentFault fault;

    bool ok() const noexcept { return fault == SegmentFault::kNone; }
};

} // namespace sluice::coherence
