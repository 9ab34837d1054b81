// SPDX-License-Identifier: BSD-3-Clause
//
// The local segments of a request: checked, translated into verbs' own, and shown to a device that
// doesn't see the CPU's caches. No allocation, no exception, no lock; and inline, because a request of one
// segment is little more than this.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/coherence/engine.hpp"
#include "ibverbs-glue/memory.hpp"
#include "udapl/provider/dto.hpp"
#include "udapl/provider/memory.hpp"

namespace sluice::dapl {

// The answer to a call about an endpoint or a shared queue; the first is success.
enum class EpAnswer {
    kDone,
    kBadState,
    kFull,
    kNoEvd,           // that direction has no dispatcher
    kNoBindStream,    // its dispatcher doesn't take completions of binds
    kShared,          // it receives from a shared queue
    kTooManySegments, // segments
    kTooLong,         // more than a message can carry, or than its destination has room for
    kNoRegion,        // a segment names no live one
    kOutsideRegion,   // a segment is
    kOtherZone,       // a region of another protection zone
    kNotReadable,     // the region's privileges refuse it
    kNotWritable,
    kBadAddress, // of a family that the device hasn't, or without a way there
    kBadFlag,    // the endpoint wasn't made for it
    kPrivateDataTooLong,
    kOtherModel,  // of another endpoint at the same dispatcher, or than its streams allow
    kHasReceives, // posted to the queue that would have to be replaced
    kNoResources, // the device has no more
    kFailed,      // by the device; the log says why
};

constexpr std::uint32_t kMaxSegments = 32;
constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 30;

// Context that a post needs.
struct SegmentContext {
    coherence::Engine& memory;
    std::uint32_t zone;  // the protection zone's number
    std::uint64_t limit; // of all segments together
    // Whether memory past the limit is left out, as a read does that has less data; otherwise it is an error.
    bool is_cut = false;
};

inline bool is_inside(const coherence::Region& region, const coherence::Segment& segment) noexcept {
    return segment.length <= region.length &&
           segment.address - region.address <= region.length - segment.length;
}

// The live region that SEGMENT names and lies in.
inline EpAnswer find_region(const SegmentContext& context, const coherence::Segment& segment,
                            coherence::Region& region) noexcept {
    if (!context.memory.find(segment.context, region)) {
        return EpAnswer::kNoRegion;
    }
    if (!is_inside(region, segment)) {
        return EpAnswer::kOutsideRegion;
    }
    return region.zone == context.zone ? EpAnswer::kDone : EpAnswer::kOtherZone;
}

// The same, where the local side of a request needs the privilege NEEDED. DAT says of a region that isn't
// there what it says of one without the privilege.
[[gnu::always_inline]] inline EpAnswer find_usable(const SegmentContext& context,
                                                   const coherence::Segment& segment, unsigned needed,
                                                   coherence::Region& region) noexcept {
    const EpAnswer found = find_region(context, segment, region);
    if (found == EpAnswer::kNoRegion || (found == EpAnswer::kDone && (region.flags & needed) == 0)) {
        return needed == kLocalRead ? EpAnswer::kNotReadable : EpAnswer::kNotWritable;
    }
    return found;
}

// SEGMENT, which lies in REGION, as verbs have it. SUM: of those before it, and then with it.
[[gnu::always_inline]] inline EpAnswer place(const SegmentContext& context, const coherence::Segment& segment,
                                             const coherence::Region& region, ibv_sge& list,
                                             std::uint64_t& sum) noexcept {
    const std::uint64_t rest = context.limit - sum;
    if (segment.length > rest && !context.is_cut) {
        return EpAnswer::kTooLong;
    }
    const std::uint64_t length = context.is_cut ? std::min(segment.length, rest) : segment.length;
    sum += length;
    list = {segment.address, static_cast<std::uint32_t>(length), region.user};
    return EpAnswer::kDone;
}

[[gnu::always_inline]] inline EpAnswer translate_one(const SegmentContext& context,
                                                     const coherence::Segment& segment, unsigned needed,
                                                     ibv_sge& list, std::uint64_t& sum) noexcept {
    if (segment.length == 0) [[unlikely]] {
        list = {}; // its other members mean nothing
        return EpAnswer::kDone;
    }
    coherence::Region region;
    const EpAnswer found = find_usable(context, segment, needed, region);
    return found == EpAnswer::kDone ? place(context, segment, region, list, sum) : found;
}

// Of several, or none; the members of a SegmentContext, which would have to be in memory for one segment,
// too.
EpAnswer translate_each(coherence::Engine& memory, std::uint32_t zone, std::uint64_t limit, bool is_cut,
                        Segments segments, unsigned needed, ibv_sge* list, std::uint64_t* total) noexcept;

// The segments as verbs have them, kMaxSegments at most; their sum in TOTAL. Afterwards the device sees what
// the CPU wrote there, and no write-back will undo what the device writes.
[[gnu::always_inline]] inline EpAnswer translate(const SegmentContext& context, Segments segments,
                                                 unsigned needed, ibv_sge* list,
                                                 std::uint64_t& total) noexcept {
    std::uint64_t sum = 0;
    EpAnswer answer{};
    if (segments.size() == 1) [[likely]] {
        answer = translate_one(context, segments.front(), needed, *list, sum);
    } else {
        std::uint64_t several = 0;
        answer = translate_each(context.memory, context.zone, context.limit, context.is_cut, segments, needed,
                                list, &several);
        sum = several;
    }
    if (answer == EpAnswer::kDone && context.memory.sync_required()) [[unlikely]] {
        (void)context.memory.before_device_reads(segments.data(), segments.size()); // they were checked
    }
    total = sum;
    return answer;
}

} // namespace sluice::dapl
