// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice check --timeline`: recordings as programs, and strangers, may leave them, and what is made of them.
// tests/races/timeline has programs that record.
#include <chrono>
#include <sstream>

#include "tools/check/timeline.hpp"
#include "tools/check/timeline_page.hpp"
#include "tools/check/timeline_rows.hpp"

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;
using namespace sluice::tools::check;

namespace {

Timeline read_timeline(const std::string& text) {
    TimelineReader reader;
    reader.feed(text);
    return reader.finish();
}

const std::string kRegion = "region 7 1 64 0 4096 100 - LMR 1\n";

// So many bytes of the first region's, at TIME.
std::string event(const std::string& kind, unsigned time, unsigned first, unsigned end, unsigned since = 0) {
    return "event 7 1 " + kind + " " + std::to_string(time) + " " +
           std::to_string(since == 0 ? time : since) + " " + std::to_string(first) + " " +
           std::to_string(end) + " 0 a_call\n";
}

RegionRows rows_in(const std::string& events, RowLimits limits = {}) {
    return rows_of(read_timeline(kRegion + events), 0, 1000, limits);
}

// ---- the reader

TEST(timeline__whole__all_of_it) {
    const Timeline timeline =
        read_timeline(kRegion + "stack 7 9\nframe 0x10 post /a/program\n"
                                "event 7 1 stored 120 110 0 128 9 dat_evd_wait\n"
                                "mistake 7 1 sync-read-missing 130 120 64 128 9 dat_lmr_sync_rdma_read\n"
                                "what it is wrong\nremedy call it\ngone 7 1 140\nlost 7 3\n");
    assert_int_equal(timeline.unreadable, 0);
    assert_int_equal(timeline.regions.size(), 1);
    assert_int_equal(timeline.regions[0].ended_ns, 140);
    assert_int_equal(timeline.events.size(), 2);
    assert_int_equal(timeline.stacks[timeline.events[0].stack].size(), 1);
    assert_int_equal(timeline.events[0].since_ns, 110);
    assert_string_equal(timeline.calls[timeline.events[1].call].c_str(), "dat_lmr_sync_rdma_read");
    assert_string_equal(timeline.mistakes[0].what.c_str(), "it is wrong");
    assert_string_equal(timeline.mistakes[0].remedy.c_str(), "call it");
    assert_int_equal(timeline.lost, 3);
}

TEST(timeline__garbage__counted_and_passed_over) {
    for (const std::string& wrong : std::vector<std::string>{
             "region 7 1 64 0 0 100 - empty\n", "region 7 1 0 0 4096 100 - no lines\n",
             "region 7 1 64 64 4096 100 - begins in the next line\n",
             "region 7 1 64 0 99999999999999999999 1 - x\n",
             "event 7 1 stored 1 1 0 64 0 before its region\n", "frame 0x10 main /a\n", "what of nothing\n",
             "gone 7 1 5\n", "lost 7 -1\n", "\xff\xfe\n", "stack 7\n"}) {
        const Timeline timeline = read_timeline(wrong);
        assert_int_equal(timeline.unreadable, 1);
        assert_true(timeline.regions.empty() && timeline.events.empty());
    }
    for (const std::string& wrong : std::vector<std::string>{
             event("eaten", 1, 0, 64), event("mistake", 1, 0, 64), event("stored", 1, 64, 64),
             event("stored", 1, 64, 0), "mistake 7 1 Not a rule 1 1 0 64 0 c\n",
             "event 7 1 stored x 1 0 64 0 c\n"}) {
        const Timeline timeline = read_timeline(kRegion + wrong + event("stored", 1, 0, 64));
        assert_int_equal(timeline.unreadable, 1);
        assert_int_equal(timeline.events.size(), 1);
    }
}

TEST(timeline__last_line_cut_off__all_before_it) {
    const Timeline timeline = read_timeline(kRegion + event("stored", 1, 0, 64) + "event 7 1 cle");
    assert_int_equal(timeline.events.size(), 1);
}

TEST(timeline__events_of_two_processes__by_their_times) {
    const Timeline timeline =
        read_timeline(kRegion + "region 8 1 64 0 4096 100 1 file\n" + event("stored", 300, 0, 64) +
                      "event 8 1 written 200 200 0 64 0 observe\n");
    assert_int_equal(timeline.events[0].region, 1);
    assert_string_equal(timeline.regions[1].host.c_str(), "1");
}

// ---- rows

TEST(rows__lines_with_one_history__one_row) {
    const RegionRows rows = rows_in(event("stored", 200, 0, 1024, 150) + event("clean", 300, 0, 512) +
                                    event("read", 400, 0, 1024));
    assert_int_equal(rows.rows.size(), 3); // cleaned, left dirty, never touched
    assert_int_equal(rows.rows[1].first_line, 8);
    assert_int_equal(rows.rows[1].last_line, 15);
    assert_int_equal(rows.dirty_lines, 8);
    assert_int_equal(rows.marks.size(), 2);
    assert_int_equal(rows.bands.size(), 4); // of each of two rows: since some time, and for certain
    const LineBand& cleaned = rows.bands[2];
    assert_int_equal(cleaned.row, 0);
    assert_int_equal(cleaned.from_ns, 200);
    assert_int_equal(cleaned.to_ns, 300);
    assert_int_equal(rows.bands[3].to_ns, 1000);
    assert_false(rows.bands[0].is_certain);
    assert_int_equal(rows.bands[0].from_ns, 150);
}

TEST(rows__clean__leaves_stale_lines_but_writes_over_those_that_are_dirty_too) {
    const RegionRows rows =
        rows_in(event("written", 200, 0, 128) + event("stored", 210, 0, 64) + event("clean", 220, 0, 128));
    assert_int_equal(rows.stale_lines, 1);
    assert_int_equal(rows.dirty_lines, 0);
}

TEST(rows__more_than_a_page_has__merged_and_said) {
    std::string events;
    for (unsigned line = 0; line < 64; line += 2) {
        events += event("stored", 200 + line, line * 64, line * 64 + 64);
    }
    const RegionRows all = rows_in(events);
    assert_int_equal(all.rows.size(), 64);
    assert_false(all.is_merged);
    const RegionRows few = rows_in(events, {.rows = 10});
    assert_true(few.rows.size() <= 10);
    assert_true(few.is_merged);
    assert_int_equal(few.rows.back().last_line, 63);
    assert_int_equal(few.dirty_lines, 32);                   // these are counted all the same
    assert_int_equal(few.bands.size(), few.rows.size() - 1); // the last one is of a clean line alone
}

TEST(rows__more_bands_than_a_page_has__ends_early_and_says_when) {
    std::string events;
    for (unsigned i = 0; i < 100; ++i) {
        events += event("stored", 200 + 2 * i, 0, 64) + event("clean", 201 + 2 * i, 0, 64);
    }
    const RegionRows rows = rows_in(events, {.rows = 200, .bands = 50});
    assert_true(rows.bands.size() + rows.marks.size() <= 50);
    assert_true(rows.cut_ns > 200 && rows.cut_ns < 400);
}

// A region may claim any size; nothing is as large because of that.
TEST(rows__region_of_a_stranger__soon_done) {
    std::string text = "region 7 1 1 0 1125899906842624 100 - x\n";
    for (unsigned i = 0; i < 20'000; ++i) {
        text += "event 7 1 stored " + std::to_string(i) + " 0 " + std::to_string(i * 1000) + " " +
                std::to_string(1125899906842624 - i) + " 0 c\n";
    }
    const auto begin = std::chrono::steady_clock::now();
    const RegionRows rows = rows_of(read_timeline(text), 0, 1000, {});
    assert_true(rows.is_merged);
    assert_true(rows.rows.size() <= 200);
    assert_true(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

// ---- what is written

constexpr const char* kMarkup = "</script><img src=x onerror=alert(1)>";

NamedTimeline hostile() {
    const std::string markup = kMarkup;
    NamedTimeline named{
        .timeline = read_timeline("region 7 1 64 0 4096 100 " + markup + " " + markup + "\n" +
                                  "stack 7 9\nframe 0x10 " + markup + " /a/program\n" +
                                  "mistake 7 1 a-rule 130 120 64 128 9 " + markup + "\nwhat " + markup +
                                  "\nremedy " + markup + "\n"),
        .stacks = {{}, {{.function = markup, .file = markup, .line = 3, .module = markup, .offset = 16}}},
        .command = markup};
    return named;
}

TEST(timeline_page__text_of_strangers__stays_text) {
    std::ostringstream out;
    write_timeline_page(out, hostile());
    assert_lacks(out.str(), "<img");
    assert_contains(out.str(), "\\u003cimg src=x");
}

TEST(timeline_json__text_of_strangers__valid_and_as_it_is) {
    std::ostringstream out;
    write_timeline_json(out, hostile());
    const Json document = Json::parse(out.str());
    assert_int_equal(document["schema"], 1);
    assert_string_equal(document["command"].get<std::string>().c_str(), kMarkup);
    assert_int_equal(document["mistakes"].size(), 1);
    assert_string_equal(document["stacks"][0][0]["function"].get<std::string>().c_str(), kMarkup);
    assert_int_equal(document["events"][0]["first_line"], 1);
    assert_int_equal(document["events"][0]["time_ns"], 30);
}

TEST(timeline_json__mistakes_at_one_place__one_with_all_events) {
    const std::string mistake = "mistake 7 1 a-rule 130 120 64 128 0 sync\n";
    std::ostringstream out;
    write_timeline_json(out, {.timeline = read_timeline(kRegion + mistake + mistake +
                                                        "mistake 7 1 b-rule 130 120 64 128 0 sync\n"),
                              .stacks = {{}},
                              .command = "c"});
    const Json document = Json::parse(out.str());
    assert_int_equal(document["mistakes"].size(), 2);
    assert_int_equal(document["mistakes"][0]["events"].size(), 2);
}

TEST(timeline_json__region_that_is_too_large_to_be_looked_at__says_how_far) {
    std::ostringstream out;
    write_timeline_json(out, {.timeline = read_timeline("region 7 1 64 0 33554432 100 - LMR 1\n" +
                                                        std::string("region 7 2 64 0 4096 100 - LMR 2\n")),
                              .stacks = {{}},
                              .command = "c"});
    const Json regions = Json::parse(out.str())["regions"];
    assert_int_equal(regions[0]["lines"], 524288);
    assert_int_equal(regions[0]["lines_looked_at"], 262144);
    assert_int_equal(regions[1]["lines_looked_at"], 64);
}

TEST(timeline__nothing_recorded__still_a_document_and_a_page) {
    std::ostringstream out;
    write_timeline_json(out, {.timeline = {}, .stacks = {{}}, .command = "c"});
    assert_true(Json::parse(out.str())["regions"].empty());
    std::ostringstream page;
    write_timeline_page(page, {.timeline = {}, .stacks = {{}}, .command = "c"});
    assert_contains(page.str(), "\"end_ns\":0");
}

TEST(timeline_page__more_events_than_a_page_has__said) {
    std::string text = kRegion;
    for (unsigned i = 0; i < 50'010; ++i) {
        text += event("read", 200 + i, 0, 64);
    }
    std::ostringstream out;
    write_timeline_page(out, {.timeline = read_timeline(text), .stacks = {{}}, .command = "c"});
    assert_contains(out.str(), "\"events_of\":50010");
}

// ---- the command

Ran check(const std::vector<std::string>& options, const std::vector<std::string>& command) {
    std::vector<std::string> arguments = {"check"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), command.begin(), command.end());
    return run(arguments);
}

TEST(check_timeline__program_without_regions__said_and_its_own_status) {
    const Machine scratch;
    const std::string page = scratch.root() + "/page.html";
    const Ran ran = check({"--timeline", page}, {"sh", "-c", "echo $SLUICE_COHERENCE; exit 42"});
    assert_status(ran, 42);
    assert_string_equal(ran.out.c_str(), "simulated\n");
    assert_contains(ran.err,
                    "sluice: check: no region for the timeline: it needs DAT regions on simulated memory");
    assert_contains(content_of(page), "\"regions\":[]");
}

TEST(check_timeline__without_it__nothing_is_set) {
    assert_string_equal(
        check({}, {"sh", "-c", "echo ${SLUICE_TIMELINE-none} ${SLUICE_COHERENCE-none}"}).out.c_str(),
        "none none\n");
}

TEST(check_timeline__recording_is_garbage__one_line) {
    const Machine scratch;
    const std::string json = scratch.root() + "/timeline.json";
    const Ran ran = check({"--timeline-json", json}, {"sh", "-c",
                                                      "head -c 100000 /dev/urandom > ${SLUICE_TIMELINE#*:}; "
                                                      "echo >> ${SLUICE_TIMELINE#*:}; kill -9 $$"});
    assert_status(ran, 137);
    assert_contains(ran.err, "sluice: check: records of the timeline that can't be understood: ");
    assert_int_equal(std::count(ran.err.begin(), ran.err.end(), '\n'), 2); // and that there is no region
    assert_true(Json::accept(content_of(json)));
}

TEST(check_timeline__wrong_options__refused_and_nothing_started) {
    for (const std::vector<std::string>& options :
         std::vector<std::vector<std::string>>{{"--quick", "--timeline", "/tmp/x"},
                                               {"--timeline", "-", "--json", "-"},
                                               {"--timeline-events", "1", "--timeline", "/tmp/x"}}) {
        const Ran ran = check(options, {"echo", "started"});
        assert_status(ran, 2);
        assert_string_equal(ran.out.c_str(), "");
    }
    const Ran nowhere = check({"--timeline", "/no/such/file"}, {"echo", "started"});
    assert_status(nowhere, 1);
    assert_string_equal(nowhere.err.c_str(), "sluice: check: /no/such/file: No such file or directory\n");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.timeline");
}
