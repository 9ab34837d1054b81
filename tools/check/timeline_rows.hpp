// SPDX-License-Identifier: BSD-3-Clause
//
// What a page shows of a region's timeline: rows of lines that share their history, and what each row was
// when.
//
// Where a region has more rows than a page can show, neighbours become one, which is dirty or stale as soon
// as one of its lines is. Where that doesn't help either, the picture ends early, and says when.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/check/timeline.hpp"

namespace sluice::tools::check {

inline constexpr std::uint8_t kDirtyBit = 1;
inline constexpr std::uint8_t kStaleBit = 2;

struct LineRow {
    std::uint64_t first_line = 0;
    std::uint64_t last_line = 0;
};

struct LineBand {
    std::uint32_t row = 0;
    std::uint8_t state = 0;
    bool is_certain = true;  // otherwise it became so at some time between the two
    std::uint32_t event = 0; // an index: what made it so
    std::uint64_t from_ns = 0;
    std::uint64_t to_ns = 0;
};

// A call, or a mistake.
struct LineMark {
    std::uint32_t event = 0;
    std::uint32_t first_row = 0;
    std::uint32_t last_row = 0;
};

struct RegionRows {
    std::vector<LineRow> rows;
    std::vector<LineBand> bands;
    std::vector<LineMark> marks;
    bool is_merged = false;        // some lines with other histories share a row
    std::uint64_t cut_ns = 0;      // what comes later isn't there; 0: all is
    std::uint64_t dirty_lines = 0; // at the end
    std::uint64_t stale_lines = 0;
};

// The REGION's of TIMELINE, which ends at END_NS; at most so many rows, and so many bands and marks.
struct RowLimits {
    std::size_t rows = 200;
    std::size_t bands = 20'000;
};
RegionRows rows_of(const Timeline& timeline, std::uint32_t region, std::uint64_t end_ns, RowLimits limits);

} // namespace sluice::tools::check
