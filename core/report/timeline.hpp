// SPDX-License-Identifier: BSD-3-Clause
//
// The coherence timeline of `sluice check --timeline` (ADR 104): what was known, and when, of each cache line
// of memory whose coherence is simulated.
//
// A library that simulates a memory has a RegionTimeline for each region. It looks at lines when the program
// calls it, and notes what it does to them. What has changed since the last look is appended to the file that
// SLUICE_TIMELINE=EVENTS:FILE names, in one piece, so that the recording of a process that is killed is
// there. The form is one of lines; numbers are decimal, bytes count from the region's begin:
//
//     region 4711 1 64 16 4096 17 HOST NAME    pid, number, bytes of a line, where in a line it
//                                              begins, bytes, time (ns), host or -, name
//     stack 4711 3                             pid, number; frames follow, as in a finding
//     frame 0x1a2b main /path/of/program
//     event 4711 1 KIND 18 17 0 128 3 CALL     pid, region, kind, time, time of the look before,
//                                              first byte and the one behind the last, stack (0:
//                                              none), call
//     mistake 4711 1 RULE 18 17 0 128 3 CALL   the same; the call is the one that is missing
//     what TEXT                                of the mistake before
//     remedy TEXT                              likewise
//     gone 4711 1 18                           the region has ended
//     lost 4711 12                             so many events found no place
//
// A process that writes more than EVENTS counts them instead.
//
// Thread safety: an object belongs to one thread at a time; several objects may be used at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/stack.hpp"

namespace sluice::report {

// Whether anybody wants it. The same each time.
bool wants_timeline() noexcept;
// CLOCK_MONOTONIC. May be called in a signal's handler.
std::uint64_t timeline_now_ns() noexcept;
// A call of the program's in which something is seen or done.
struct Occasion {
    std::string_view call;
    const Stack* stack = nullptr;
    std::uint64_t time_ns = 0;
};

struct LineState {
    bool is_dirty = false; // the program has stored there, and the line wasn't cleaned
    bool is_stale = false; // another side has written, and the program's copy wasn't dropped
    friend bool operator==(const LineState&, const LineState&) = default;
};

struct TimelineMistake {
    std::string_view rule;
    std::string_view call; // that is missing
    std::string_view what;
    std::string_view remedy;
};

class RegionTimeline {
  public:
    static constexpr std::uint64_t kLineBytes = 64;
    // What lies behind isn't looked at.
    static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

    // FIRST: where in a line the region begins; HOST: of simulated ones, or empty.
    RegionTimeline(std::string name, std::string host, std::uint64_t bytes, std::uint64_t first = 0);
    RegionTimeline(const RegionTimeline&) = delete; // its address is its number
    RegionTimeline& operator=(const RegionTimeline&) = delete;

    // Calls STATE(line, former state) for lines FIRST to LAST, and notes what has changed. Whether it has.
    template<typename State>
    bool look(std::uint64_t first, std::uint64_t last, const Occasion& occasion, const State& state) {
        begin_look(last, occasion.time_ns);
        for (std::uint64_t line = first; line <= last && line < states_.size(); ++line) {
            set(line, state(line, states_[line]));
        }
        return end_look(occasion);
    }
    // KIND: clean, invalidate; the occasion has a stack. Lines FIRST to LAST are the same on both sides now,
    // but for what wasn't dirty and was only cleaned.
    void moved(std::string_view kind, std::uint64_t first, std::uint64_t last, const Occasion& occasion);
    // KIND: read. Changes nothing.
    void note(std::string_view kind, std::uint64_t first_byte, std::uint64_t end_byte,
              const Occasion& occasion);
    void mistake(const TimelineMistake& mistake, std::uint64_t first_byte, std::uint64_t end_byte,
                 const Occasion& occasion);
    // What nothing happens to is seen, too.
    void begin(std::uint64_t now_ns);
    void end();

    std::uint64_t lines() const noexcept { return states_.size(); }

  private:
    struct Change {
        const char* kind;
        std::uint64_t first;
        std::uint64_t last;
        std::uint64_t since_ns; // when the first of these lines was looked at before
    };

    void begin_look(std::uint64_t last, std::uint64_t now_ns);
    void set(std::uint64_t line, LineState state);
    void add_change(const char* kind, std::uint64_t line, std::uint64_t since_ns);
    bool end_look(const Occasion& occasion);
    std::uint64_t number() const noexcept;
    void announce(std::string& text, std::uint64_t now_ns);
    // KIND with its word, "event stored"; REST: lines behind it.
    void write_event(std::string_view kind, std::uint64_t first_byte, std::uint64_t end_byte,
                     std::uint64_t since_ns, const Occasion& occasion, std::string_view rest = {});
    std::uint64_t byte_of(std::uint64_t line) const noexcept;

    const std::string name_;
    const std::string host_;
    const std::uint64_t first_;
    std::uint64_t bytes_;
    long process_ = 0; // in which it was announced
    std::uint64_t began_ns_ = 0;
    std::uint64_t now_ns_ = 0; // of the look that is under way
    std::vector<LineState> states_;
    std::vector<std::uint64_t> looked_ns_; // by line: when its state was known last
    std::vector<Change> changes_;          // of the look that is under way
    std::vector<std::string> quiet_;       // calls that have moved nothing since something changed
};

} // namespace sluice::report
