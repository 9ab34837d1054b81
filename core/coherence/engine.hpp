// SPDX-License-Identifier: BSD-3-Clause
//
// Keeps the CPU's and one device's view of registered memory together.
//
// The engine knows the device's live regions and works on batches of segments inside them:
//
//   before_device_reads   what the CPU stored becomes visible to the device (clean, one fence)
//   after_device_wrote    what the device wrote becomes visible to the CPU (fence, invalidate, fence)
//
// Both check every segment first. For a device that snoops the CPU's caches that check and the
// architecture's barrier are all that happens.
//
// As long as each segment of a batch touches or overlaps the lines of those before it, no line is
// issued twice: issuing a line again while its write-back is on the way stalls. Segments aren't
// sorted; a line that comes back after the batch went elsewhere is issued again, which is correct.
//
// Edges. A line is the smallest thing that a CPU can write back or drop. A region whose first or last
// granule is only partly its own shares it with a stranger, and what the CPU stores there while the
// device writes can't be kept apart (docs/coherence.md). So: granule() is published, add() says which
// edges are shared and counts them, after_device_wrote() counts how often it met one, and
// under EdgePolicy::kRefuse refuses it. before_device_reads() is safe on edges always.
//
// Thread safety: everything may be called from any thread at any time. Batches take no lock,
// allocate nothing, and write nothing shared but a statistic when an edge is met. Freeing a region
// while a batch names it is the caller's race: the batch sees it alive or gone, but the memory must
// stay mapped until the batch returns, as for a memcpy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/coherence/batch.hpp"
#include "core/coherence/cacheflush.hpp"
#include "core/coherence/region_table.hpp"
#include "core/coherence/segment.hpp"
#include "core/result.hpp"

namespace sluice::coherence {

enum class EdgePolicy : std::uint8_t {
    kCount,  // go on, and count
    kRefuse, // a segment that the device wrote and that meets a shared edge is a fault
};

struct EdgeCounts {
    std::uint64_t regions;  // added so far with a shared edge
    std::uint64_t segments; // given to after_device_wrote() so far that met a shared edge
};

class Engine {
  public:
    // For a device that snoops. BARRIERS must outlive the engine.
    static Result<std::unique_ptr<Engine>> make_coherent(const Barriers& barriers);

    // For a device that doesn't. OPS must outlive the engine.
    static Result<std::unique_ptr<Engine>> make_non_coherent(const Ops& ops, EdgePolicy edges);

    // A region that the device may write must not hold dirty lines when it does: a later
    // write-back would undo the device's write. DEVICE_WRITES cleans the region once, before it
    // becomes live. Call after the device knows the region. Gives the region's context.
    // Errors: kOutOfRange when the range wraps, kInvalidArgument for flags that aren't the
    // caller's, and those of RegionTable::add().
    Result<std::uint32_t> add(const Region& region, bool device_writes) noexcept;

    // Call before the device forgets the region. Errors as RegionTable::remove().
    Result<void> remove(std::uint32_t context) noexcept { return table_.remove(context); }

    bool find(std::uint32_t context, Region& region) const noexcept { return table_.find(context, region); }

    // Whether the two calls below would take the whole batch, edges aside; nothing else happens. For a caller
    // that promises all or nothing.
    BatchResult validate(const Segment* segments, std::uint64_t count) const noexcept;
    BatchResult before_device_reads(const Segment* segments, std::uint64_t count) noexcept;
    BatchResult after_device_wrote(const Segment* segments, std::uint64_t count) noexcept;

    // True when the calls above must be made for correctness, not for their checks alone.
    bool sync_required() const noexcept { return ops_ != nullptr; }

    // What a buffer's address and length should be multiples of; 1 when the device snoops.
    std::uint64_t granule() const noexcept { return ops_ != nullptr ? ops_->granule_bytes : 1; }

    // How many lines a call that takes the whole batch issues.
    std::uint64_t lines_of(const Segment* segments, std::uint64_t count) const noexcept;

    EdgeCounts edge_counts() const noexcept;

  private:
    Engine(RegionTable table, const Ops* ops, const Barriers* barriers, EdgePolicy edges) noexcept;

    std::uint32_t edges_of(const Region& region) const noexcept;
    [[gnu::always_inline]] BatchResult look(const Segment* segments, std::uint64_t count) const noexcept;
    // A device that snoops makes the shortest calls: its path is kept free of what the others need.
    [[gnu::always_inline]] BatchResult check(const Segment* segments, std::uint64_t count,
                                             const Barrier& barrier) const noexcept;
    [[gnu::noinline]] BatchResult clean(const Segment* segments, std::uint64_t count) noexcept;
    [[gnu::noinline]] BatchResult invalidate(const Segment* segments, std::uint64_t count) noexcept;

    const Ops* ops_;           // null: the device snoops
    const Barriers* barriers_; // null: it doesn't
    EdgePolicy edge_policy_;
    RegionTable table_;
    alignas(64) std::atomic<std::uint64_t> edge_regions_{0};
    std::atomic<std::uint64_t> edge_segments_{0};
};

} // namespace sluice::coherence
