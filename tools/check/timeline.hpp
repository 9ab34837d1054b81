// SPDX-License-Identifier: BSD-3-Clause
//
// A coherence timeline as libraries have recorded it; core/report/timeline.hpp has the form of the file.
//
// The program under check can write into the file, too, so that anything may stand there. Each text and each
// number has a limit, and what can't be understood is counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/report/file/words.hpp"
#include "tools/check/record.hpp"

namespace sluice::tools::check {

// What a line of memory is to one side: its own copy may be newer (dirty) or older (stale) than memory.
enum class LineEvent : std::uint8_t {
    kStored,     // a line has become dirty since the look before
    kWritten,    // likewise stale: another side has written
    kSame,       // it isn't any more, and no call was the reason
    kClean,      // a call
    kInvalidate, // a call
    kRead,       // by the device, for a peer
    kMistake,
};
inline constexpr std::array<std::string_view, 7> kLineEventNames = {
    "stored", "written", "same", "clean", "invalidate", "read", "mistake"};

// What lies behind isn't looked at; core/report/timeline.hpp has the same number.
inline constexpr std::uint64_t kLookedAtBytes = std::uint64_t{16} << 20;

struct TimelineRegion {
    std::int64_t pid = 0;
    std::string host; // a simulated one; empty: there are none
    std::string name;
    std::uint64_t line_bytes = 0;
    std::uint64_t first = 0; // where in a line it begins
    std::uint64_t bytes = 0;
    std::uint64_t began_ns = 0;
    std::uint64_t ended_ns = 0; // 0: it never did

    std::uint64_t line_of(std::uint64_t byte) const noexcept { return (first + byte) / line_bytes; }
    std::uint64_t lines() const noexcept { return line_of(bytes - 1) + 1; }
    std::uint64_t lines_looked_at() const noexcept { return std::min(lines(), kLookedAtBytes / line_bytes); }
};

struct TimelineEvent {
    LineEvent kind{};
    std::uint32_t region = 0;  // an index
    std::uint32_t stack = 0;   // an index; 0 is empty
    std::uint32_t call = 0;    // an index: in which this was seen or done; of a mistake, the missing one
    std::uint32_t mistake = 0; // an index, of kMistake
    std::uint64_t time_ns = 0;
    std::uint64_t since_ns = 0; // of the look before
    std::uint64_t first_byte = 0;
    std::uint64_t end_byte = 0;
};

struct TimelineMistake {
    std::string rule;
    std::string what;
    std::string remedy;
};

struct Timeline {
    std::vector<TimelineRegion> regions;
    std::vector<std::vector<Frame>> stacks{1};
    std::vector<std::string> calls;
    std::vector<TimelineMistake> mistakes;
    std::vector<TimelineEvent> events; // by their times, once it is finished
    std::uint64_t lost = 0;            // that processes had no room for
    std::uint64_t left_out = 0;        // beyond what we keep
    std::uint64_t unreadable = 0;
};

class TimelineReader {
  public:
    void feed(std::string_view bytes);
    // What was fed until now.
    Timeline finish();

  private:
    using Key = std::pair<std::int64_t, std::uint64_t>; // a process, and a number of its own

    bool take_line(std::string_view line);
    bool take_region(std::string_view text);
    bool take_stack(std::string_view text);
    bool take_frame(std::string_view text);
    bool take_event(std::string_view text, bool is_mistake);
    bool take_gone(std::string_view text);
    bool take_lost(std::string_view text);
    bool take_text(std::string_view text, std::string TimelineMistake::*to);
    std::uint32_t index_of_call(std::string_view name);

    Timeline timeline_;
    report::file::LineReader lines_;
    std::map<Key, std::uint32_t> regions_;
    std::map<Key, std::uint32_t> stacks_;
    std::map<std::string, std::uint32_t, std::less<>> calls_;
    bool is_in_stack_ = false;   // frames may follow
    bool is_in_mistake_ = false; // its texts may follow
};

} // namespace sluice::tools::check
