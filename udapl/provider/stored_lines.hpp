// SPDX-License-Identifier: BSD-3-Clause
//
// For a checker: what a program has stored to regions that peers read, not cleaned, and since when. Nobody
// tells of stores: a line that was dirty at one look, and holds the same at another one, was dirty all the
// time, unless it was cleaned between, of which forget() tells.
//
// Thread safety: one thread at a time. It calls the regions' memories.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "udapl/provider/simulated_memory.hpp"

namespace sluice::dapl {

class StoredLines {
  public:
    using LineRun = coherence::LineRun;

    // CONTEXT names the region in MEMORY.
    void add(SimulatedMemory& memory, std::uint32_t context, LineRun region);
    void remove(const SimulatedMemory& memory, std::uint32_t context) noexcept;
    bool has_regions() noexcept;

    // CLOCK says what time it is, in nanoseconds.
    void look(std::uint64_t (*clock)());
    // LINES are about to be cleaned.
    void forget(const SimulatedMemory& memory, LineRun lines) noexcept;
    // The first of BYTES, in one piece, that were dirty at a look before BEFORE_NS and have been since.
    std::optional<LineRun> stored_before(SimulatedMemory& memory, LineRun bytes, std::uint64_t before_ns);

  private:
    struct Line {
        SimulatedMemory::DirtyLine dirty;
        std::uint64_t since_ns = 0;
    };
    struct Region {
        SimulatedMemory* memory;
        std::uint32_t context;
        LineRun bytes;
        std::vector<Line> lines; // by address
    };

    static const Line* find(const Region& region, LineRun line) noexcept;
    void notice_fork() noexcept;

    std::vector<Region> regions_;
    pid_t process_ = getpid();
};

} // namespace sluice::dapl
