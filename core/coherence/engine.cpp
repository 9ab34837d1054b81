// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/engine.hpp"

#include <limits>
#include <utility>

#include "core/coherence/batch.hpp"
#include "core/probes.hpp"

namespace sluice::coherence {

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

Engine::Engine(RegionTable table, const Ops* ops, const Barriers* barriers, EdgePolicy edges) noexcept
    : ops_(ops), barriers_(barriers), edge_policy_(edges), table_(std::move(table)) {}

Result<std::unique_ptr<Engine>> Engine::make_coherent(const Barriers& barriers) {
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
        coherence::clean(*ops_, region.address, region.length);
    }
    Result<std::uint32_t> context = table_.add(marked);
    if (context && edges != 0) {
        edge_regions_.fetch_add(1, std::memory_order_relaxed); // a statistic: orders nothing
    }
    return context;
}

inline BatchResult Engine::look(const Segment* segments, std::uint64_t count) const noexcept {
    Batch batch{.regions = table_.view(), .first = segments, .count = count};
    return for_each_checked<Edges::kIgnored>(batch, [](std::uint64_t, std::uint64_t) {});
}

BatchResult Engine::validate(const Segment* segments, std::uint64_t count) const noexcept {
    return look(segments, count);
}

inline BatchResult Engine::check(const Segment* segments, std::uint64_t count,
                                 const Barrier& barrier) const noexcept {
    const BatchResult result = look(segments, count);
    issue(barrier);
    return result;
}

BatchResult Engine::before_device_reads(const Segment* segments, std::uint64_t count) noexcept {
    SLUICE_PROBE(before_device_reads, segments, count);
    return ops_ == nullptr ? check(segments, count, barriers_->to_device) : clean(segments, count);
}

BatchResult Engine::after_device_wrote(const Segment* segments, std::uint64_t count) noexcept {
    SLUICE_PROBE(after_device_wrote, segments, count);
    return ops_ == nullptr ? check(segments, count, barriers_->from_device) : invalidate(segments, count);
}

// Checking and issuing go together, because cleaning (and dropping, which cleans first) a valid
// segment loses nothing even when a later one turns out wrong. The fence comes in any case.
BatchResult Engine::clean(const Segment* segments, std::uint64_t count) noexcept {
    Batch batch{.regions = table_.view(), .first = segments, .count = count};
    issue(ops_->before_clean, *ops_);
    const BatchResult result = ops_->clean.issue_batch(*ops_, batch);
    issue(ops_->after_clean, *ops_);
    return result;
}

BatchResult Engine::invalidate(const Segment* segments, std::uint64_t count) noexcept {
    Batch batch{.regions = table_.view(),
                .first = segments,
                .count = count,
                .granule_bytes = ops_->granule_bytes,
                .refuse_shared_edges = edge_policy_ == EdgePolicy::kRefuse};
    issue(ops_->before_invalidate, *ops_);
    const BatchResult result = ops_->invalidate.issue_batch(*ops_, batch);
    issue(ops_->after_invalidate, *ops_);
    if (batch.edges_met != 0) [[unlikely]] {
        edge_segments_.fetch_add(batch.edges_met, std::memory_order_relaxed); // as above
    }
    return result;
}

std::uint64_t Engine::lines_of(const Segment* segments, std::uint64_t count) const noexcept {
    if (ops_ == nullptr) {
        return 0;
    }
    const std::uintptr_t step = ops_->line_bytes;
    std::uint64_t lines = 0;
    LineRun done = kNothing;
    for (const Segment* segment = segments; segment != segments + count; ++segment) {
        if (segment->length != 0) {
            for_new_lines(coherence::lines_of(segment->address, segment->length, step), step, done,
                          [&](LineRun run) { lines += (run.last - run.first) / step + 1; });
        }
    }
    return lines;
}

EdgeCounts Engine::edge_counts() const noexcept {
    return {edge_regions_.load(std::memory_order_relaxed), edge_segments_.load(std::memory_order_relaxed)};
}

} // namespace sluice::coherence
