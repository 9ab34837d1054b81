// SPDX-License-Identifier: BSD-3-Clause
//
// What the coherence timeline has of a simulated host (ADR 104): which lines of its images are dirty, and
// which are old, at each call that moves lines. The lines of the call are looked at before they move; all are
// when a flag is published, and when the lines of the call have changed.
#include "layers/hosts/host.hpp"

namespace sluice::layers::hosts {

report::Occasion Host::occasion_of(const report::Stack& stack, const std::string& call) {
    return {call, &stack, report::timeline_now_ns()};
}

report::RegionTimeline& Host::timeline_locked(const SharedFile& file, std::uint64_t now_ns) {
    const auto [at, is_new] =
        timelines_.try_emplace(file.name(), file.path(), std::to_string(place_.host), file.part(0).length);
    if (is_new) {
        at->second.begin(now_ns);
    }
    return at->second;
}

bool Host::look_at_lines_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last,
                                const report::Occasion& occasion) {
    if (file.has_lost(first, last)) {
        return false; // memory isn't there any more
    }
    shared_.lock();
    const bool has_changed = timeline_locked(file, occasion.time_ns)
                                 .look(first / kLineBytes, last / kLineBytes, occasion,
                                       [&](std::uint64_t index, report::LineState former) {
                                           const std::uint64_t offset = index * kLineBytes;
                                           if (!file.has_line(offset)) {
                                               return former;
                                           }
                                           const Line line = file.line(place_.host, offset);
                                           return report::LineState{line.is_dirty(), line.has_news()};
                                       });
    shared_.unlock();
    return has_changed;
}

void Host::look_at_all_locked(const report::Occasion& occasion) {
    for (const auto& each : files_) {
        const SharedFile& file = each.second;
        for (std::size_t i = 0; i < file.parts(); ++i) {
            const Part& part = file.part(i);
            look_at_lines_locked(file, part.offset, part.offset + (part.length - 1), occasion);
        }
    }
}

void Host::move_recorded_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last, bool drop,
                                Look& look, const report::Occasion& occasion) {
    if (look_at_lines_locked(file, first, last, occasion)) {
        look_at_all_locked(occasion);
    }
    move_lines_locked(file, first, last, drop, look);
    if (file.has_lost(first, last)) {
        return; // they have stayed where they were
    }
    const report::Occasion after{occasion.call, occasion.stack, report::timeline_now_ns()};
    timeline_locked(file, after.time_ns)
        .moved(drop ? "invalidate" : "clean", first / kLineBytes, last / kLineBytes, after);
}

} // namespace sluice::layers::hosts
