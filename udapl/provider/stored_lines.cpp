// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/stored_lines.hpp"

#include <algorithm>
#include <utility>

namespace sluice::dapl {

namespace {

using coherence::LineRun;

// They have bytes in common.
LineRun part_of(LineRun run, LineRun of) noexcept {
    return {std::max(run.first, of.first), std::min(run.last, of.last)};
}

} // namespace

// What its parent cleans a child doesn't hear of.
void StoredLines::notice_fork() noexcept {
    if (const pid_t now = getpid(); now != process_) {
        process_ = now;
        regions_.clear();
    }
}

bool StoredLines::has_regions() noexcept {
    notice_fork();
    return !regions_.empty();
}

void StoredLines::add(SimulatedMemory& memory, std::uint32_t context, LineRun region) {
    notice_fork();
    regions_.push_back({&memory, context, region, {}});
}

void StoredLines::remove(const SimulatedMemory& memory, std::uint32_t context) noexcept {
    std::erase_if(regions_, [&](const Region& region) {
        return region.memory == &memory && region.context == context;
    });
}

const StoredLines::Line* StoredLines::find(const Region& region, LineRun line) noexcept {
    const auto found = std::ranges::lower_bound(region.lines, line.first, {},
                                                [](const Line& each) { return each.dirty.line.first; });
    return found != region.lines.end() && found->dirty.line.first == line.first ? &*found : nullptr;
}

void StoredLines::look(std::uint64_t (*clock)()) {
    notice_fork();
    for (Region& region : regions_) {
        const std::vector<SimulatedMemory::DirtyLine> dirty = region.memory->dirty_lines(region.bytes);
        const std::uint64_t now_ns = clock(); // when all of them were dirty
        std::vector<Line> now;
        now.reserve(dirty.size());
        for (const SimulatedMemory::DirtyLine& each : dirty) {
            const Line* const former = find(region, each.line);
            const bool is_same = former != nullptr && former->dirty.hash == each.hash;
            now.push_back({each, is_same ? former->since_ns : now_ns});
        }
        region.lines = std::move(now);
    }
}

void StoredLines::forget(const SimulatedMemory& memory, LineRun lines) noexcept {
    for (Region& region : regions_) {
        if (region.memory == &memory) {
            std::erase_if(region.lines, [&](const Line& each) {
                return each.dirty.line.first <= lines.last && each.dirty.line.last >= lines.first;
            });
        }
    }
}

std::optional<LineRun> StoredLines::stored_before(SimulatedMemory& memory, LineRun bytes,
                                                  std::uint64_t before_ns) {
    notice_fork();
    const auto region = std::ranges::find_if(regions_, [&](const Region& each) {
        return each.memory == &memory && each.bytes.first <= bytes.first && each.bytes.last >= bytes.first;
    });
    if (region == regions_.end()) {
        return std::nullopt;
    }
    // Whole lines are noted. One that holds what it held, and wasn't cleaned, is dirty in the bytes in which
    // it was.
    constexpr std::uintptr_t kWithin = SimulatedMemory::kLineBytes - 1;
    const LineRun lines = part_of({bytes.first & ~kWithin, bytes.last | kWithin}, region->bytes);
    std::optional<LineRun> found;
    for (const SimulatedMemory::DirtyLine& dirty : memory.dirty_lines(lines)) {
        const Line* const noted = find(*region, dirty.line);
        const LineRun meant = part_of(dirty.line, bytes);
        const bool is_whole = meant.first == dirty.line.first && meant.last == dirty.line.last;
        const bool is_old = noted != nullptr && noted->dirty.hash == dirty.hash &&
                            noted->since_ns < before_ns && (is_whole || !memory.dirty_lines(meant).empty());
        if (found && (!is_old || dirty.line.first != found->last + 1)) {
            break;
        }
        if (is_old) {
            found = {found ? found->first : dirty.line.first, dirty.line.last};
        }
    }
    return found ? std::optional(part_of(*found, bytes)) : std::nullopt;
}

} // namespace sluice::dapl
