// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/timeline_rows.hpp"

#include <algorithm>
#include <bit>

namespace sluice::tools::check {

namespace {

constexpr std::size_t kMostSegments = 4096;

// Lines that share their history: from each of these numbers to the next one.
std::vector<std::uint64_t> boundaries_of(const Timeline& timeline, std::uint32_t region, bool& is_merged) {
    const TimelineRegion& of = timeline.regions[region];
    const std::uint64_t lines = of.lines();
    std::vector<std::uint64_t> found = {0, lines};
    for (const TimelineEvent& event : timeline.events) {
        if (event.region == region) {
            found.push_back(of.line_of(event.first_byte));
            found.push_back(of.line_of(event.end_byte - 1) + 1);
        }
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (found.size() <= kMostSegments + 1) {
        return found;
    }
    is_merged = true;
    const std::uint64_t step = std::bit_ceil((lines + kMostSegments - 1) / kMostSegments);
    found.clear();
    for (std::uint64_t at = 0; at < lines; at += step) {
        found.push_back(at);
    }
    found.push_back(lines);
    return found;
}

class Replay {
  public:
    Replay(const Timeline& timeline, std::uint32_t region, RowLimits limits)
        : timeline_(timeline), of_(timeline.regions[region]), limits_(limits),
          boundaries_(boundaries_of(timeline, region, out_.is_merged)), states_(boundaries_.size() - 1) {
        group_ = (states_.size() + limits.rows - 1) / limits.rows;
        out_.is_merged = out_.is_merged || group_ > 1;
        for (std::size_t i = 0; i < states_.size(); i += group_) {
            out_.rows.push_back({boundaries_[i], boundaries_[std::min(i + group_, states_.size())] - 1});
        }
        open_.resize(out_.rows.size());
    }

    void take(std::uint32_t index) {
        const TimelineEvent& event = timeline_.events[index];
        const std::size_t first = segment_of(of_.line_of(event.first_byte));
        const std::size_t last = segment_of(of_.line_of(event.end_byte - 1));
        for (std::size_t i = first; i <= last; ++i) {
            states_[i] = after(event.kind, states_[i]);
        }
        for (std::size_t row = first / group_; row <= last / group_; ++row) {
            update(row, index);
        }
        if (event.kind >= LineEvent::kClean && !is_full(event.time_ns)) {
            out_.marks.push_back({index, static_cast<std::uint32_t>(first / group_),
                                  static_cast<std::uint32_t>(last / group_)});
        }
    }

    RegionRows finish(std::uint64_t end_ns) {
        for (std::size_t row = 0; row < open_.size(); ++row) {
            close(row, end_ns);
        }
        for (std::size_t i = 0; i < states_.size(); ++i) {
            const std::uint64_t lines = boundaries_[i + 1] - boundaries_[i];
            out_.dirty_lines += (states_[i] & kDirtyBit) != 0 ? lines : 0;
            out_.stale_lines += (states_[i] & kStaleBit) != 0 ? lines : 0;
        }
        return std::move(out_);
    }

  private:
    // A clean of a line that is dirty and stale writes it over what the other side has written.
    static std::uint8_t after(LineEvent kind, std::uint8_t state) noexcept {
        switch (kind) {
        case LineEvent::kStored:
            return state | kDirtyBit;
        case LineEvent::kWritten:
            return state | kStaleBit;
        case LineEvent::kSame:
        case LineEvent::kInvalidate:
            return 0;
        case LineEvent::kClean:
            return (state & kDirtyBit) != 0 ? 0 : state;
        case LineEvent::kRead:
        case LineEvent::kMistake:
            return state;
        }
        return state;
    }

    std::size_t segment_of(std::uint64_t line) const {
        const auto above = std::ranges::upper_bound(boundaries_, line);
        const auto at = static_cast<std::size_t>(above - boundaries_.begin());
        return std::min(std::max<std::size_t>(at, 1) - 1, states_.size() - 1);
    }

    bool is_full(std::uint64_t time_ns) {
        const bool is_full = out_.bands.size() + out_.marks.size() >= limits_.bands;
        if (is_full && out_.cut_ns == 0) {
            out_.cut_ns = time_ns;
        }
        return is_full;
    }

    void update(std::size_t row, std::uint32_t index) {
        const TimelineEvent& event = timeline_.events[index];
        std::uint8_t state = 0;
        for (std::size_t i = row * group_; i < std::min((row + 1) * group_, states_.size()); ++i) {
            state |= states_[i];
        }
        LineBand& open = open_[row];
        const auto won = static_cast<std::uint8_t>(state & ~open.state);
        if (state == open.state) {
            return;
        }
        if (won != 0 && event.since_ns < event.time_ns && !is_full(event.time_ns)) {
            out_.bands.push_back({.row = static_cast<std::uint32_t>(row),
                                  .state = won,
                                  .is_certain = false,
                                  .event = index,
                                  .from_ns = event.since_ns,
                                  .to_ns = event.time_ns});
        }
        close(row, event.time_ns);
        open = {.row = static_cast<std::uint32_t>(row),
                .state = state,
                .is_certain = true,
                .event = index,
                .from_ns = event.time_ns,
                .to_ns = 0};
    }

    void close(std::size_t row, std::uint64_t time_ns) {
        LineBand& open = open_[row];
        if (open.state != 0 && !is_full(open.from_ns)) {
            open.to_ns = std::max(time_ns, open.from_ns);
            out_.bands.push_back(open);
        }
        open.state = 0;
    }

    const Timeline& timeline_;
    const TimelineRegion& of_;
    const RowLimits limits_;
    RegionRows out_;
    const std::vector<std::uint64_t> boundaries_;
    std::vector<std::uint8_t> states_; // of the lines between two boundaries
    std::size_t group_ = 1;            // so many of them are a row
    std::vector<LineBand> open_;       // by row
};

} // namespace

RegionRows rows_of(const Timeline& timeline, std::uint32_t region, std::uint64_t end_ns, RowLimits limits) {
    const std::uint64_t ended_ns = timeline.regions[region].ended_ns;
    while (true) {
        Replay replay(timeline, region, limits);
        for (std::uint32_t i = 0; i < timeline.events.size(); ++i) {
            if (timeline.events[i].region == region) {
                replay.take(i);
            }
        }
        RegionRows rows = replay.finish(ended_ns != 0 ? ended_ns : end_ns);
        if (rows.cut_ns == 0 || limits.rows <= 1) {
            return rows;
        }
        limits.rows = std::max<std::size_t>(limits.rows / 4, 1);
    }
}

} // namespace sluice::tools::check
