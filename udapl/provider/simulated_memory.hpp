// SPDX-License-Identifier: BSD-3-Clause
//
// A device's memory that doesn't snoop, on a machine that does: SLUICE_COHERENCE=simulated.
//
// Each page of the program's that is registered has a shadow, which is what the device gets in its place,
// under the program's addresses. What the program sees is a cache in front of the shadow: a store gets
// there when its line is cleaned, what the device wrote gets here when the line is invalidated. Which lines
// are dirty, a third copy tells: what the line held when both were the same. A page starts with zeros on
// both sides, as the kernel's do. So:
//
//   clean        dirty lines go to the shadow, whole, over what the device wrote there meanwhile
//   invalidate   the same, as no architecture has a pure one; then the shadow's bytes come here
//
// Nothing else moves between the two, ever: no eviction corrects a forgotten call by accident. A line ends
// where its region does, so that no stranger's byte is touched, and none beyond the region can spoil it.
//
// Regions that overlap have the same shadow where they do, as they have the same memory.
//
// Thread safety: everything may be called from any thread. Stores of the program's to a line that is being
// cleaned are the program's race.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/coherence/cacheflush.hpp"
#include "core/sync.hpp"

namespace sluice::dapl {

struct LineView;

class SimulatedMemory {
  public:
    using LineRun = coherence::LineRun;

    static constexpr std::uintptr_t kLineBytes = 64;

    // What wants to know where programs go wrong.
    class Watcher {
      public:
        // The calling thread has cleaned LINES, which the device had written, too.
        virtual void on_overwritten(const SimulatedMemory& memory, LineRun lines) noexcept = 0;
        // Around each move of LINES; DROP: they are invalidated, and otherwise cleaned.
        virtual void before_move(const SimulatedMemory& memory, LineRun lines, bool drop) noexcept = 0;
        virtual void after_move(const SimulatedMemory& memory, LineRun lines, bool drop) noexcept = 0;

      protected:
        ~Watcher() = default;
    };

    // WATCHER may be null.
    explicit SimulatedMemory(Watcher* watcher = nullptr) noexcept;
    ~SimulatedMemory();
    SimulatedMemory(const SimulatedMemory&) = delete;
    SimulatedMemory& operator=(const SimulatedMemory&) = delete;

    // For an engine. Valid as long as this.
    const coherence::Ops& ops() const noexcept { return ops_; }

    // The shadow of a range, for as long as it lives; before its memory.
    class Shadow {
      public:
        Shadow(Shadow&& other) noexcept;
        Shadow& operator=(Shadow&&) = delete;
        ~Shadow();
        // Lies in its page where the range does.
        void* address() const noexcept { return address_; }

      private:
        friend class SimulatedMemory;
        Shadow(SimulatedMemory& memory, std::uintptr_t first, std::uintptr_t last, void* address,
               void* own_mapping) noexcept
            : memory_(&memory), first_(first), last_(last), address_(address), own_mapping_(own_mapping) {}

        SimulatedMemory* memory_; // null: moved away
        std::uintptr_t first_;
        std::uintptr_t last_;
        void* address_;
        void* own_mapping_; // where the range has several pieces; null otherwise
    };
    // LENGTH > 0, and the range doesn't wrap. kInsufficientResources.
    Result<Shadow> add(std::uintptr_t address, std::size_t length);

    // A line at this moment. In a closed page (old_pages) nobody knows what the program has stored.
    struct LineLook {
        bool is_dirty = false;
        bool is_stale = false;
        bool is_closed = false;
    };
    // For a checker. The lines that BYTES touch, from the first on, as far as they have a shadow.
    std::vector<LineLook> look(LineRun bytes);

    // What the program has stored to and not cleaned.
    struct DirtyLine {
        LineRun line = {};
        std::uint64_t hash = 0; // of what it holds
    };
    // For a checker. Those of BYTES's lines, or of their parts in BYTES, in their order, but for pages that
    // can't be read.
    std::vector<DirtyLine> dirty_lines(LineRun bytes);

    // For a checker. The device is about to read BYTES; TOKEN names that until end_read().
    void begin_read(const void* token, LineRun bytes) noexcept;
    // The first of these bytes, in one piece, that the program had stored before and that weren't cleaned up
    // to now: the device can't have read them as they are.
    std::optional<LineRun> end_read(const void* token) noexcept;
    // Finds the lines in whole pages of REGION that the device has written and that weren't invalidated
    // since, for EVENT (old_pages).
    void find_old(LineRun region, std::uint32_t event) noexcept;

  private:
    struct Chunk;
    struct Run;
    using Runs = std::map<std::uintptr_t, Run>; // by their first byte; whole pages

    template<bool kDrop>
    static void issue(const coherence::Ops& ops, coherence::LineRun run) noexcept;
    template<bool kDrop>
    static coherence::BatchResult issue_batch(const coherence::Ops& ops, coherence::Batch& batch) noexcept;

    // Pages FIRST to LAST get a shadow where they have none.
    Result<void> cover_locked(std::uintptr_t first, std::uintptr_t last)
        SLUICE_TSA(requires_capability(mutex_));
    void split_locked(std::uintptr_t at) SLUICE_TSA(requires_capability(mutex_));
    void release(std::uintptr_t first, std::uintptr_t last) noexcept;
    void prune_locked(std::uintptr_t first, std::uintptr_t last) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    Result<Shadow> map_locked(std::uintptr_t first, std::uintptr_t last)
        SLUICE_TSA(requires_capability(mutex_));
    template<typename Visit>
    void visit_locked(LineRun bytes, const Visit& visit) noexcept SLUICE_TSA(requires_capability(mutex_));
    std::optional<LineRun> first_dirty_locked(LineRun bytes) noexcept SLUICE_TSA(requires_capability(mutex_));
    void note_clean_locked(LineRun line) noexcept SLUICE_TSA(requires_capability(mutex_));
    std::uint64_t old_lines_locked(std::uintptr_t page, const Run& run) const noexcept
        SLUICE_TSA(requires_capability(mutex_));
    // Gives the first of them, in one piece, where both the program and the device had written.
    std::optional<LineRun> move_locked(LineRun lines, bool drop) noexcept
        SLUICE_TSA(requires_capability(mutex_));
    // The lines that BYTES touch, as far as they are the REGION's.
    void move(coherence::LineRun bytes, coherence::LineRun region, bool drop) noexcept;

    const std::uintptr_t page_bytes_;
    const coherence::Ops ops_;
    Watcher* const watcher_;
    // What a device is about to read, and what of it is dirty since then.
    struct Read {
        const void* token = nullptr;
        LineRun dirty = {};
    };

    Mutex mutex_;
    Runs runs_ SLUICE_TSA(guarded_by(mutex_));
    // Of more at a time, some aren't looked at.
    std::array<Read, 64> reads_ SLUICE_TSA(guarded_by(mutex_)) = {};
    std::array<std::byte, 16384>
        copy_ SLUICE_TSA(guarded_by(mutex_)); // programs have threads with small stacks
    std::uint32_t next_read_ SLUICE_TSA(guarded_by(mutex_)) = 0;
};

} // namespace sluice::dapl
