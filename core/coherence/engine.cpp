// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/engine.hpp"

#include <limits>
#include <new>
#include <utility>

#include "core/coherence/run_collector.hpp"

namespace sluice::coherence {

namespace {

using cacheflush::LineRun;
using cacheflush::Ops;

// LENGTH > 0. Nothing here can wrap: the offset is compared only when the length fits, and an
// address below the region gives an offset too large for any length.
bool inside(const Segment& segment, const RegionTable::Bounds& bounds) {
    const std::uint64_t offset = segment.address - bounds.address;
    return segment.length <= bounds.length && offset <= bounds.length - segment.length;
}

// Checks one segment that isn't empty; fills BOUNDS.
[[gnu::always_inline]] inline SegmentFault fault_of(const RegionTable& table, const Segment& segment,
                                                    RegionTable::Bounds& bounds) {
    if (!table.bounds(segment.context, bounds)) [[unlikely]] {
        return SegmentFault::kUnknownContext;
    }
    if (!inside(segment, bounds)) [[unlikely]] {
        return SegmentFault::kOutOfRange;
    }
    return SegmentFault::kNone;
}

// Whether SEGMENT, which lies inside BOUNDS, reaches into a granule that the region shares.
bool meets_shared_edge(const Segment& segment, const RegionTable::Bounds& bounds, std::uint64_t granule) {
    const std::uint64_t mask = ~(granule - 1);
    const std::uint64_t segment_last = segment.address + (segment.length - 1);
    const std::uint64_t region_last = bounds.address + (bounds.length - 1);
    const bool head =
        (bounds.flags & kSharedHead) != 0 && (segment.address & mask) == (bounds.address & mask);
    const bool tail = (bounds.flags & kSharedTail) != 0 && (segment_last & mask) == (region_last & mask);
    return head || tail;
}

constexpr BatchResult kDone{0, SegmentFault::kNone};

} // namespace

const char* to_string(SegmentFault fault) noexcept {
    switch (fault) {
    case SegmentFault::kNone:
        return "no fault";
    case SegmentFault::kUnknownContext:
        return "no live region has this context";
    case SegmentFault::kOutOfRange:
        return "not entirely inside its region";
    case SegmentFault::kSharedEdge:
        return "touches a cache granule that the region shares with other memory";
    }
    return "unknown fault";
}

Engine::Engine(RegionTable table, const cacheflush::Ops* ops, const cacheflush::Barriers* barriers,
               EdgePolicy edges) noexcept
    : ops_(ops), barriers_(barriers), edge_policy_(edges), table_(std::move(table)) {}

Result<std::unique_ptr<Engine>> Engine::make_coherent(const cacheflush::Barriers& barriers) {
    return RegionTable::make().and_then([&](RegionTable&& table) -> Result<std::unique_ptr<Engine>> {
        return std::unique_ptr<Engine>(new Engine(std::move(table), nullptr, &barriers, EdgePolicy::kCount));
    });
}

Result<std::unique_ptr<Engine>> Engine::make_non_coherent(const Ops& ops, EdgePolicy edges) {
    return RegionTable::make().and_then([&](RegionTable&& table) -> Result<std::unique_ptr<Engine>> {
        return std::unique_ptr<Engine>(new Engine(std::move(table), &ops, nullptr, edges));
    });
}

std::uint32_t Engine::edges_of(const Region& region) const noexcept {
    const std::uint64_t inside_granule = granule() - 1;
    if (region.length == 0) {
        return 0;
    }
    return ((region.address & inside_granule) != 0 ? kSharedHead : 0) |
           (((region.address + region.length) & inside_granule) != 0 ? kSharedTail : 0);
}

Result<std::uint32_t> Engine::add(const Region& region, bool device_writes) noexcept {
    if (region.length != 0 &&
        region.length - 1 > std::numeric_limits<std::uint64_t>::max() - region.address) {
        return Error::format(ErrorKind::kOutOfRange, 0,
                             "a region of 0x%llx bytes at 0x%llx goes past the end of the address space",
                             static_cast<unsigned long long>(region.length),
                             static_cast<unsigned long long>(region.address));
    }
    if ((region.flags & ~kCallerFlags) != 0) {
        return Error(ErrorKind::kInvalidArgument, "only the lower 16 flags of a region are the caller's");
    }
    Region marked = region;
    const std::uint32_t edges = edges_of(region);
    marked.flags |= edges;
    if (device_writes && ops_ != nullptr) {
        cacheflush::clean(*ops_, region.address, region.length);
    }
    Result<std::uint32_t> context = table_.add(marked);
    if (context && edges != 0) {
        edge_regions_.fetch_add(1, std::memory_order_relaxed); // a statistic: orders nothing
    }
    return context;
}

BatchResult Engine::before_device_reads(const Segment* segments, std::uint64_t count) noexcept {
    if (ops_ != nullptr) {
        return clean(segments, count);
    }
    const BatchResult result = check(segments, count);
    cacheflush::issue(barriers_->to_device);
    return result;
}

BatchResult Engine::after_device_wrote(const Segment* segments, std::uint64_t count) noexcept {
    if (ops_ != nullptr) {
        return invalidate(segments, count);
    }
    const BatchResult result = check(segments, count);
    cacheflush::issue(barriers_->from_device);
    return result;
}

BatchResult Engine::check(const Segment* segments, std::uint64_t count) const noexcept {
    RegionTable::Bounds bounds;
    for (std::uint64_t i = 0; i < count; ++i) {
        if (segments[i].length == 0) {
            continue;
        }
        const SegmentFault fault = fault_of(table_, segments[i], bounds);
        if (fault != SegmentFault::kNone) [[unlikely]] {
            return {i, fault};
        }
    }
    return kDone;
}

// Checking and issuing go together: a segment's lines are on their way while the next ones are
// checked, which hides the checks almost entirely. That is sound because cleaning (and dropping,
// which cleans first) a valid segment loses nothing even when a later one turns out wrong.
BatchResult Engine::clean(const Segment* segments, std::uint64_t count) noexcept {
    BatchResult result = kDone;
    RegionTable::Bounds bounds;
    cacheflush::issue(ops_->before_clean, *ops_);
    RunCollector runs(*ops_, ops_->clean);
    for (std::uint64_t i = 0; i < count; ++i) {
        const Segment& segment = segments[i];
        if (segment.length == 0) {
            continue;
        }
        result.fault = fault_of(table_, segment, bounds);
        if (result.fault != SegmentFault::kNone) [[unlikely]] {
            result.index = i;
            break;
        }
        runs.add(cacheflush::lines_of(segment.address, segment.length, ops_->line_bytes));
    }
    runs.finish();
    cacheflush::issue(ops_->after_clean, *ops_);
    return result;
}

BatchResult Engine::invalidate(const Segment* segments, std::uint64_t count) noexcept {
    BatchResult result = kDone;
    RegionTable::Bounds bounds;
    std::uint64_t edges_met = 0;
    cacheflush::issue(ops_->before_invalidate, *ops_);
    RunCollector runs(*ops_, ops_->invalidate);
    for (std::uint64_t i = 0; i < count; ++i) {
        const Segment& segment = segments[i];
        if (segment.length == 0) {
            continue;
        }
        result.fault = fault_of(table_, segment, bounds);
        if (result.fault == SegmentFault::kNone && (bounds.flags & (kSharedHead | kSharedTail)) != 0 &&
            meets_shared_edge(segment, bounds, ops_->granule_bytes)) [[unlikely]] {
            ++edges_met;
            result.fault =
                edge_policy_ == EdgePolicy::kRefuse ? SegmentFault::kSharedEdge : SegmentFault::kNone;
        }
        if (result.fault != SegmentFault::kNone) [[unlikely]] {
            result.index = i;
            break;
        }
        runs.add(cacheflush::lines_of(segment.address, segment.length, ops_->line_bytes));
    }
    runs.finish();
    cacheflush::issue(ops_->after_invalidate, *ops_);
    if (edges_met != 0) [[unlikely]] {
        edge_segments_.fetch_add(edges_met, std::memory_order_relaxed); // a statistic: orders nothing
    }
    return result;
}

EdgeCounts Engine::edge_counts() const noexcept {
    return {edge_regions_.load(std::memory_order_relaxed), edge_segments_.load(std::memory_order_relaxed)};
}

} // namespace sluice::coherence
