// SPDX-License-Identifier: BSD-3-Clause
//
// Coherence timelines as they are written, read back by the code that `sluice check` reads them with.
//
// What SLUICE_TIMELINE says is read once in a process, so that each test writes in a child.
#include "core/report/timeline.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tools/check/timeline.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::report;
namespace reader = sluice::tools::check;
using reader::LineEvent;

namespace {

// What the reader says of it.
static_assert(RegionTimeline::kMostBytes == reader::kLookedAtBytes);

constexpr LineState kSame{};
constexpr LineState kDirty{.is_dirty = true};
constexpr LineState kStale{.is_stale = true};

// What BODY, run by a child with room for EVENTS, has written.
template<typename Body>
reader::Timeline timeline_of(unsigned events, const Body& body) {
    std::string name = "/tmp/timeline_test.XXXXXX";
    const int fd = mkstemp(name.data());
    assert_true(fd >= 0);
    close(fd);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("SLUICE_TIMELINE", (std::to_string(events) + ":" + name).c_str(), 1);
        body();
        std::exit(EXIT_SUCCESS); // NOLINT(concurrency-mt-unsafe): the only thread
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    unlink(name.c_str());
    reader::TimelineReader found;
    found.feed(text.str());
    reader::Timeline timeline = found.finish();
    assert_int_equal(timeline.unreadable, 0);
    return timeline;
}

Stack& here() {
    static Stack stack = capture();
    return stack;
}

Occasion at(std::uint64_t time_ns, std::string_view call = "a_call") {
    return {call, &here(), time_ns};
}

// Every line is in that state.
auto all(LineState state) {
    return [state](std::uint64_t, LineState) { return state; };
}

void assert_event(const reader::TimelineEvent& event, LineEvent kind, std::uint64_t first_byte,
                  std::uint64_t end_byte) {
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.first_byte, first_byte);
    assert_int_equal(event.end_byte, end_byte);
}

TEST(look__some_lines_changed__a_run_of_each_kind_with_call_and_times) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("LMR 1", "", 1024);
        region.begin(5);
        assert_true(region.look(0, 15, at(10), [](std::uint64_t line, LineState) {
            return line >= 2 && line <= 4 ? kDirty : line == 7 ? kStale : kSame;
        }));
        assert_false(region.look(2, 4, at(20), all(kDirty)));
    });
    assert_int_equal(timeline.regions.size(), 1);
    assert_string_equal(timeline.regions[0].name.c_str(), "LMR 1");
    assert_int_equal(timeline.regions[0].lines(), 16);
    assert_int_equal(timeline.events.size(), 2);
    assert_event(timeline.events[0], LineEvent::kStored, 128, 320);
    assert_event(timeline.events[1], LineEvent::kWritten, 448, 512);
    assert_int_equal(timeline.events[0].time_ns, 10);
    assert_int_equal(timeline.events[0].since_ns, 5);
    assert_string_equal(timeline.calls[timeline.events[0].call].c_str(), "a_call");
    assert_true(!timeline.stacks[timeline.events[0].stack].empty());
}

TEST(look__lines_looked_at_at_different_times__since_the_first_of_these) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r", "", 256);
        region.begin(5);
        region.look(0, 1, at(10), all(kSame));
        region.look(0, 0, at(20), all(kSame));
        region.moved("clean", 3, 3, at(25));
        region.look(0, 0, at(30), all(kDirty)); // since 20
        region.look(1, 2, at(40), all(kDirty)); // since 5
        region.look(3, 3, at(50), all(kDirty)); // since 25
    });
    assert_int_equal(timeline.events[1].since_ns, 20);
    assert_int_equal(timeline.events[2].since_ns, 5);
    assert_int_equal(timeline.events[3].since_ns, 25);
}

TEST(look__line_that_lost_one_state_and_won_another__first_the_loss) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r", "", 192);
        region.look(1, 2, at(1), all(kDirty));
        region.look(0, 2, at(2), all(kStale));
    });
    assert_int_equal(timeline.events.size(), 3);
    assert_event(timeline.events[0], LineEvent::kStored, 64, 192);
    assert_event(timeline.events[1], LineEvent::kSame, 64, 192);
    assert_event(timeline.events[2], LineEvent::kWritten, 0, 192);
}

TEST(moved__nothing_to_move__once_until_something_changes) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r", "", 64);
        for (std::uint64_t i = 0; i < 1000; ++i) { // as a program polls a flag
            region.moved("invalidate", 0, 0, at(i));
        }
        region.look(0, 0, at(2000), all(kStale));
        region.moved("clean", 0, 0, at(2001)); // leaves it stale
        region.moved("invalidate", 0, 0, at(2002));
        region.look(0, 0, at(2003), all(kSame));
    });
    assert_int_equal(timeline.events.size(), 4);
    assert_event(timeline.events[0], LineEvent::kInvalidate, 0, 64);
    assert_event(timeline.events[1], LineEvent::kWritten, 0, 64);
    assert_event(timeline.events[2], LineEvent::kClean, 0, 64);
    assert_event(timeline.events[3], LineEvent::kInvalidate, 0, 64);
}

TEST(region__begins_and_ends_within_lines__bytes_from_its_begin) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r", "", 100, 40); // bytes 40 to 140: three lines
        region.look(0, 2, at(1), all(kDirty));
        region.moved("clean", 1, 2, at(2));
    });
    assert_int_equal(timeline.regions[0].lines(), 3);
    assert_event(timeline.events[0], LineEvent::kStored, 0, 100);
    assert_event(timeline.events[1], LineEvent::kClean, 24, 100);
}

TEST(mistake__texts_of_several_lines__one_line_each) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r\nevent", "1", 64);
        region.mistake({.rule = "a-rule", .call = "do_it", .what = "what\nregion", .remedy = "re\x1bmedy"}, 0,
                       64, at(1));
    });
    assert_string_equal(timeline.regions[0].name.c_str(), "r event");
    assert_string_equal(timeline.regions[0].host.c_str(), "1");
    assert_int_equal(timeline.mistakes.size(), 1);
    assert_string_equal(timeline.mistakes[0].what.c_str(), "what region");
    assert_string_equal(timeline.mistakes[0].remedy.c_str(), "re medy");
    assert_string_equal(timeline.calls[timeline.events[0].call].c_str(), "do_it");
}

TEST(events__more_than_there_is_room_for__counted) {
    const reader::Timeline timeline = timeline_of(3, [] {
        RegionTimeline region("r", "", 64);
        for (std::uint64_t i = 0; i < 10; ++i) {
            region.note("read", 0, 64, at(i));
        }
    });
    assert_int_equal(timeline.events.size(), 3);
    assert_int_equal(timeline.lost, 7);
}

TEST(events__process_killed__what_it_wrote_and_that_some_are_lost) {
    const reader::Timeline timeline = timeline_of(3, [] {
        RegionTimeline region("r", "", 64);
        for (std::uint64_t i = 0; i < 5; ++i) {
            region.note("read", 0, 64, at(i));
        }
        (void)raise(SIGKILL);
    });
    assert_int_equal(timeline.events.size(), 3);
    assert_true(timeline.lost >= 1);
    assert_int_equal(timeline.regions[0].ended_ns, 0);
}

TEST(fork__child_uses_the_region__it_is_announced_again) {
    const reader::Timeline timeline = timeline_of(100, [] {
        RegionTimeline region("r", "0", 64);
        region.look(0, 0, at(1), all(kDirty));
        const pid_t child = fork();
        if (child != 0) {
            (void)waitpid(child, nullptr, 0);
            return;
        }
        region.look(0, 0, at(2), all(kDirty));
        region.end();
    });
    assert_int_equal(timeline.regions.size(), 2);
    assert_int_equal(timeline.events.size(), 2);
    assert_int_equal(timeline.events[1].region, 1);
    assert_true(!timeline.stacks[timeline.events[1].stack].empty());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("report.timeline");
}
