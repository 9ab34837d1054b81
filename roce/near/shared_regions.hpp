// SPDX-License-Identifier: BSD-3-Clause
//
// Regions of another process that lie in a file which that process has mapped shared: a memfd, /dev/shm, any
// file. This process maps the same pages, and copies without the kernel.
//
// Where a region lies, /proc says; the file is one that the other process has open, or the one under the
// mapping's path. Both need the right to look into the process (ptrace's right to read). It is looked for
// once for each registration, not before some requests have gone there, since it takes up to a millisecond.
//
// What isn't mapped: a file that this process has open itself, as closing another descriptor of it would take
// the program's record locks; and what the other process may not write itself.
//
// A region that stays registered while its process maps something else there is a program's mistake. Then its
// former pages are written, as by an adapter.
//
// Not thread safe.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>

#include "core/mapped_bytes.hpp"
#include "roce/near/board.hpp"

namespace sluice::roce::near {

class SharedRegions {
  public:
    // Of the process PID.
    explicit SharedRegions(pid_t pid) noexcept : pid_(pid) {}

    // Whether it was decided where the region with this KEY lies, for one of its versions. The region is
    // about to be used.
    bool is_settled(std::uint32_t key) noexcept;
    // REGION is about to be used. May look for where it lies, and wait for the file system then. True: it
    // has been mapped.
    enum class Search : std::uint8_t { kAfterSomeUses, kNow };
    bool before_use(const SeenRegion& region, Search search) noexcept;
    // Bytes of the process's memory.
    struct Range {
        std::uint64_t addr = 0;
        std::uint64_t len_bytes = 0;
    };
    // Where RANGE, which is in REGION, lies here. None: it isn't mapped here. Another version than the one
    // that was decided on has to be looked for anew.
    std::optional<std::uint64_t> find(const SeenRegion& region, const Range& range) noexcept;

  private:
    struct Known {
        std::uint32_t key = 0;
        std::uint32_t version = 0;
        std::uint32_t uses = 0;
        std::uint32_t uses_of_others = 0; // of the same place, since the last of its own
        MappedBytes bytes{};
        // What of it is mapped, if anything is. The process may have published another range since, under
        // the same version.
        Range range{};
        std::uint64_t here = 0;
    };
    static constexpr std::size_t kKnown = 256; // at a time
    bool has_places() noexcept;
    Known& place_of(std::uint32_t key) const noexcept;
    static bool is_or_becomes(Known& known, const SeenRegion& region) noexcept;
    void look_for(const engine::PublishedRegion& region, Known& known) const;

    const pid_t pid_;
    // By the low bits of the key's slot. Null: no region has been used, as of a process that only sends
    // messages.
    std::unique_ptr<Known[]> known_{};
};

} // namespace sluice::roce::near
