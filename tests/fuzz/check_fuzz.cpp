// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice check` reads: records of findings, and of Reads by processes for each other, answers of
// addr2line, suppressions, coherence timelines. The first byte says which.
#include <cstdlib>
#include <sstream>
#include <string>

#include "core/report/peer_read_parser.hpp"
#include "tests/fuzz/input.hpp"
#include "tools/check/answer.hpp"
#include "tools/check/record.hpp"
#include "tools/check/report.hpp"
#include "tools/check/suppressions.hpp"
#include "tools/check/tally.hpp"
#include "tools/check/timeline_rows.hpp"
#include "tools/output.hpp"

using namespace sluice::tools::check;
using sluice::fuzz::must;

namespace {

void must_be_printable(const std::string& text) {
    must(printable(text) == text);
}

Report report_of(const Finding& finding) {
    Report report{.pid = finding.pid,
                  .rule = finding.rule,
                  .object = finding.object,
                  .what = finding.what,
                  .remedy = finding.remedy,
                  .sides = {}};
    must(finding.sides.size() <= kMostSides);
    for (const Side& side : finding.sides) {
        must(side.frames.size() <= kMostFrames);
        NamedSide named{.title = side.title, .places = {}};
        for (const Frame& frame : side.frames) {
            named.places.push_back({.function = frame.function,
                                    .file = frame.module,
                                    .line = static_cast<unsigned>(frame.offset & 1),
                                    .module = frame.module,
                                    .offset = frame.offset,
                                    .is_inlined = (frame.offset & 2) != 0});
        }
        report.sides.push_back(std::move(named));
    }
    return report;
}

// Strict: a text that is no UTF-8 is thrown.
void must_be_json(const nlohmann::json& object) {
    must(!object.dump().empty());
}

void read_records(std::string_view text) {
    RecordReader whole;
    const RecordReader::Batch batch = whole.feed(text);
    Tally tally({}, 1);
    for (const Finding& finding : batch.findings) {
        must(!finding.rule.empty());
        const Report report = report_of(finding);
        std::string shown = text_of(report);
        std::erase(shown, '\n');
        must_be_printable(shown);
        must_be_json(json_of(report));
        (void)tally.add(report);
    }
    must_be_json(tally.json());
    RecordReader in_pieces;
    std::size_t findings = 0;
    for (std::size_t at = 0; at < text.size(); at += 3) {
        findings += in_pieces.feed(text.substr(at, 3)).findings.size();
    }
    must(findings == batch.findings.size() && in_pieces.unreadable() == whole.unreadable());
}

void read_peer_reads(std::string_view text) {
    sluice::report::PeerReadParser whole;
    const std::vector<sluice::report::PeerRead> reads = whole.feed(text, 1);
    for (const sluice::report::PeerRead& read : reads) {
        must(read.first <= read.last && !read.address.empty());
        // They become a part of a finding.
        RecordReader records;
        const RecordReader::Batch batch = records.feed("finding 1\nrule a\nside b\n" + read.frames + "end\n");
        must(batch.findings.size() == 1 && batch.findings[0].sides.size() == 1 && records.unreadable() == 0);
    }
    sluice::report::PeerReadParser in_pieces;
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += 3) {
        count += in_pieces.feed(text.substr(at, 3), 1).size();
    }
    must(count == reads.size());
}

void read_answer(std::string_view text) {
    const std::vector<Place> places = places_in(text);
    must(places.size() <= kMostFrames);
    for (const Place& place : places) {
        must_be_printable(place.function);
        must_be_printable(place.file);
        must((place.line == 0) == place.file.empty());
    }
}

void read_suppressions(const std::string& text) {
    std::istringstream lines(text);
    try {
        Suppressions suppressions(lines, "input");
        Report report{.pid = 0, .rule = "a", .object = "", .what = "", .remedy = "", .sides = {}};
        report.sides.push_back(
            {.title = "",
             .places = {
                 {.function = "f(int*)", .file = "/b/c.c", .line = 1, .module = "/d/e.so", .offset = 1}}});
        (void)suppressions.cover(report);
    } catch (const sluice::tools::Failure& failure) {
        must_be_printable(failure.what());
    }
}

void must_fit(const RegionRows& rows, const TimelineRegion& region, RowLimits limits) {
    must(!rows.rows.empty() && rows.rows.size() <= limits.rows);
    must(rows.rows.front().first_line == 0 && rows.rows.back().last_line == region.lines() - 1);
    must(rows.bands.size() + rows.marks.size() <= limits.bands);
    for (std::size_t i = 1; i < rows.rows.size(); ++i) {
        must(rows.rows[i].first_line == rows.rows[i - 1].last_line + 1);
    }
    for (const LineBand& band : rows.bands) {
        must(band.row < rows.rows.size() && band.from_ns <= band.to_ns && band.state != 0);
    }
    for (const LineMark& mark : rows.marks) {
        must(mark.first_row <= mark.last_row && mark.last_row < rows.rows.size());
    }
    must(rows.dirty_lines <= region.lines() && rows.stale_lines <= region.lines());
}

void read_timeline(std::string_view text) {
    TimelineReader whole;
    whole.feed(text);
    const Timeline timeline = whole.finish();
    TimelineReader in_pieces;
    for (std::size_t at = 0; at < text.size(); at += 3) {
        in_pieces.feed(text.substr(at, 3));
    }
    must(in_pieces.finish().events.size() == timeline.events.size());
    for (const TimelineEvent& event : timeline.events) {
        must(event.region < timeline.regions.size() && event.stack < timeline.stacks.size());
        must(event.call < timeline.calls.size() && event.first_byte < event.end_byte);
        must(event.since_ns <= event.time_ns && event.end_byte <= timeline.regions[event.region].bytes);
        must(event.kind != LineEvent::kMistake || event.mistake < timeline.mistakes.size());
    }
    for (std::uint32_t i = 0; i < timeline.regions.size(); ++i) {
        must_be_printable(timeline.regions[i].name);
        must_fit(rows_of(timeline, i, 0, {.rows = 7, .bands = 30}), timeline.regions[i],
                 {.rows = 7, .bands = 30});
    }
}

} // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data) + (size == 0 ? 0 : 1),
                           size == 0 ? 0 : size - 1);
    switch (size == 0 ? 0 : data[0]) {
    case 'a':
        read_answer(text);
        break;
    case 'p':
        read_peer_reads(text);
        break;
    case 's':
        read_suppressions(text);
        break;
    case 't':
        read_timeline(text);
        break;
    default:
        read_records(text);
    }
    return 0;
}
