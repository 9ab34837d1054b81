// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/sync_timeline.hpp"

#include <algorithm>
#include <string>

namespace sluice::dapl {

namespace {

using report::LineState;
using report::Occasion;

thread_local const char* sync_call = nullptr;

Occasion occasion_of(const char* otherwise, const report::Stack& stack) noexcept {
    return {sync_call != nullptr ? sync_call : otherwise, &stack, report::timeline_now_ns()};
}

constexpr const char* transfer_of(bool drop) noexcept {
    return drop ? "a completion" : "a post";
}

} // namespace

SyncCall::SyncCall(const char* name) noexcept {
    sync_call = name;
}

SyncCall::~SyncCall() {
    sync_call = nullptr;
}

void SyncTimeline::add(SimulatedMemory& memory, std::uint32_t context, LineRun bytes,
                       const report::Stack& made) {
    const auto [at, is_new] =
        regions_.try_emplace({&memory, context}, memory, bytes, "LMR " + std::to_string(context));
    if (is_new) {
        at->second.timeline.begin(report::timeline_now_ns());
        look(at->second, bytes, {"dat_lmr_create", &made, report::timeline_now_ns()});
    }
}

void SyncTimeline::remove(const SimulatedMemory& memory, std::uint32_t context) {
    if (const auto at = regions_.find({&memory, context}); at != regions_.end()) {
        at->second.timeline.end();
        regions_.erase(at);
    }
}

void SyncTimeline::for_each(const SimulatedMemory& memory, LineRun bytes,
                            const std::function<void(Region& region, LineRun part)>& visit) {
    for (auto& [key, region] : regions_) {
        if (region.memory == &memory && region.bytes.first <= bytes.last &&
            bytes.first <= region.bytes.last) {
            visit(region,
                  {std::max(bytes.first, region.bytes.first), std::min(bytes.last, region.bytes.last)});
        }
    }
}

bool SyncTimeline::look(Region& region, LineRun part, const Occasion& occasion) {
    const std::uintptr_t most = region.bytes.first + (report::RegionTimeline::kMostBytes - 1);
    const LineRun seen{part.first, std::min(part.last, std::max(most, part.first))};
    const std::uint64_t first = region.line_of(seen.first);
    const std::vector<SimulatedMemory::LineLook> looks =
        region.memory->look({std::max(seen.first & ~(SimulatedMemory::kLineBytes - 1), region.bytes.first),
                             std::min(seen.last | (SimulatedMemory::kLineBytes - 1), region.bytes.last)});
    if (looks.empty()) {
        return false;
    }
    return region.timeline.look(
        first, first + (looks.size() - 1), occasion, [&](std::uint64_t line, LineState former) {
            const SimulatedMemory::LineLook& each = looks[line - first];
            return LineState{each.is_closed ? former.is_dirty : each.is_dirty, each.is_stale};
        });
}

void SyncTimeline::look_at_all(std::string_view call, const report::Stack& stack) {
    const Occasion occasion{call, &stack, report::timeline_now_ns()};
    for (auto& [key, region] : regions_) {
        look(region, region.bytes, occasion);
    }
}

void SyncTimeline::before_move(const SimulatedMemory& memory, LineRun lines, bool drop,
                               const report::Stack& stack) {
    const Occasion occasion = occasion_of(transfer_of(drop), stack);
    for_each(memory, lines, [&](Region& region, LineRun part) { look(region, part, occasion); });
}

void SyncTimeline::after_move(const SimulatedMemory& memory, LineRun lines, bool drop,
                              const report::Stack& stack) {
    const Occasion occasion = occasion_of(transfer_of(drop), stack);
    for_each(memory, lines, [&](Region& region, LineRun part) {
        region.timeline.moved(drop ? "invalidate" : "clean", region.line_of(part.first),
                              region.line_of(part.last), occasion);
    });
}

void SyncTimeline::note_read(const SimulatedMemory& memory, LineRun bytes, const report::Stack& stack) {
    const Occasion occasion{"a peer's Read", &stack, report::timeline_now_ns()};
    for_each(memory, bytes, [&](Region& region, LineRun part) {
        look(region, region.bytes, occasion);
        region.timeline.note("read", part.first - region.bytes.first, part.last - region.bytes.first + 1,
                             occasion);
    });
}

void SyncTimeline::mistake(const SimulatedMemory& memory, LineRun bytes,
                           const report::TimelineMistake& mistake, const report::Stack& stack,
                           std::uint64_t time_ns) {
    const Occasion occasion{mistake.call, &stack, time_ns != 0 ? time_ns : report::timeline_now_ns()};
    for_each(memory, bytes, [&](Region& region, LineRun part) {
        region.timeline.mistake(mistake, part.first - region.bytes.first, part.last - region.bytes.first + 1,
                                occasion);
    });
}

} // namespace sluice::dapl
