// SPDX-License-Identifier: BSD-3-Clause
//
// Turns the lines of one segment after the other into runs that don't touch, and issues them.
//
// A run grows as long as the next segment touches or overlaps it, at either end. The runs that
// are finished wait in a small array, so that one call through the table of instructions issues
// several: few enough to stay close behind the checks, enough to make the call cheap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/cacheflush/cacheflush.hpp"

namespace sluice::coherence {

class RunCollector {
  public:
    RunCollector(const cacheflush::Ops& ops, const cacheflush::LineOp& operation) noexcept
        : ops_(ops), operation_(operation) {}

    RunCollector(const RunCollector&) = delete;
    RunCollector& operator=(const RunCollector&) = delete;

    [[gnu::always_inline]] void add(cacheflush::LineRun lines) noexcept {
        if (have_current_ && touches(lines)) {
            current_.first = lines.first < current_.first ? lines.first : current_.first;
            current_.last = lines.last > current_.last ? lines.last : current_.last;
            return;
        }
        if (have_current_) {
            push(current_);
        }
        current_ = lines;
        have_current_ = true;
    }

    // Issues what is left. The collector is empty again.
    void finish() noexcept {
        if (have_current_) {
            push(current_);
            have_current_ = false;
        }
        flush();
    }

  private:
    static constexpr std::size_t kRunsPerCall = 8;

    // Differences, not sums: the line after the last one of the address space doesn't exist.
    bool touches(const cacheflush::LineRun& lines) const noexcept {
        if (lines.first > current_.last) {
            return lines.first - current_.last <= ops_.line_bytes;
        }
        return lines.last >= current_.first || current_.first - lines.last <= ops_.line_bytes;
    }

    void push(const cacheflush::LineRun& run) noexcept {
        runs_[count_++] = run;
        if (count_ == runs_.size()) {
            flush();
        }
    }

    void flush() noexcept {
        if (count_ != 0) {
            operation_.issue(ops_, runs_.data(), count_);
            count_ = 0;
        }
    }

    const cacheflush::Ops& ops_;
    const cacheflush::LineOp& operation_;
    cacheflush::LineRun current_{};
    bool have_current_ = false;
    std::size_t count_ = 0;
    std::array<cacheflush::LineRun, kRunsPerCall> runs_;
};

} // namespace sluice::coherence
