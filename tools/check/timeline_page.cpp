// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/timeline_page.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "tools/check/timeline.css.hpp"
#include "tools/check/timeline.html.hpp"
#include "tools/check/timeline.js.hpp"
#include "tools/check/timeline_rows.hpp"
#include "tools/page/page.hpp"

namespace sluice::tools::check {

namespace {

using page::Json;

constexpr std::size_t kMostPageEvents = 50'000;
constexpr std::size_t kMostBands = 60'000; // of all regions together
constexpr std::size_t kMostPageRegions = 100;

std::uint64_t begin_of(const Timeline& timeline) {
    std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
    for (const TimelineRegion& region : timeline.regions) {
        begin = std::min(begin, region.began_ns);
    }
    for (const TimelineEvent& event : timeline.events) {
        begin = std::min(begin, event.since_ns);
    }
    return timeline.regions.empty() ? 0 : begin;
}

std::uint64_t end_of(const Timeline& timeline) {
    std::uint64_t end = begin_of(timeline);
    for (const TimelineRegion& region : timeline.regions) {
        end = std::max(end, region.ended_ns);
    }
    return timeline.events.empty() ? end : std::max(end, timeline.events.back().time_ns);
}

Json or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

// Times are nanoseconds since BEGIN.
Json json_of(const TimelineRegion& region, std::uint64_t begin) {
    return {{"pid", region.pid},
            {"host", or_null(region.host)},
            {"name", region.name},
            {"line_bytes", region.line_bytes},
            {"first_line_offset", region.first},
            {"bytes", region.bytes},
            {"lines", region.lines()},
            {"lines_looked_at", region.lines_looked_at()},
            {"began_ns", region.began_ns - begin},
            {"ended_ns",
             region.ended_ns == 0 ? Json() : Json(region.ended_ns - std::min(begin, region.ended_ns))}};
}

Json json_of(const Timeline& timeline, const TimelineEvent& event, std::uint64_t begin) {
    const TimelineRegion& region = timeline.regions[event.region];
    Json json = {{"kind", kLineEventNames[static_cast<std::size_t>(event.kind)]},
                 {"region", event.region},
                 {"time_ns", event.time_ns - begin},
                 {"since_ns", event.since_ns - begin},
                 {"first_line", region.line_of(event.first_byte)},
                 {"last_line", region.line_of(event.end_byte - 1)},
                 {"first_byte", event.first_byte},
                 {"end_byte", event.end_byte},
                 {"call", timeline.calls[event.call]},
                 {"stack", event.stack == 0 ? Json() : Json(event.stack - 1)}};
    if (event.kind == LineEvent::kMistake) {
        const TimelineMistake& mistake = timeline.mistakes[event.mistake];
        json["rule"] = mistake.rule;
        json["what"] = mistake.what;
        json["remedy"] = mistake.remedy;
    }
    return json;
}

Json json_of(const Place& place) {
    return {{"function", place.function},
            {"file", or_null(place.file)},
            {"line", place.line == 0 ? Json() : Json(place.line)},
            {"module", place.module},
            {"offset", place.offset},
            {"inlined", place.is_inlined}};
}

// As reports show it: up to main().
Json texts_of(const std::vector<Place>& places) {
    Json texts = Json::array();
    for (const Place& place : places) {
        texts.push_back(text_of(place));
        if (place.function == "main") {
            break;
        }
    }
    return texts;
}

// NAME and the elements of COUNT, one by one: there may be millions.
template<typename Element>
void write_array(std::ostream& out, const char* name, std::size_t count, const Element& element) {
    out << ",\n\"" << name << "\": [";
    for (std::size_t i = 0; i < count; ++i) {
        out << (i == 0 ? "\n" : ",\n") << element(i).dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    out << "]";
}

Json json_of(const RegionRows& rows, std::uint64_t begin) {
    Json json = {{"rows", Json::array()},
                 {"bands", Json::array()},
                 {"marks", Json::array()},
                 {"merged", rows.is_merged},
                 {"cut_ns", rows.cut_ns == 0 ? Json() : Json(rows.cut_ns - begin)},
                 {"dirty_lines", rows.dirty_lines},
                 {"stale_lines", rows.stale_lines}};
    for (const LineRow& row : rows.rows) {
        json["rows"].push_back({row.first_line, row.last_line});
    }
    for (const LineBand& band : rows.bands) {
        json["bands"].push_back({band.row, band.state, band.is_certain ? 1 : 0, band.event,
                                 band.from_ns - begin, band.to_ns - begin});
    }
    for (const LineMark& mark : rows.marks) {
        json["marks"].push_back({mark.event, mark.first_row, mark.last_row});
    }
    return json;
}

// The whole is for programs; a page gets what a browser can show.
Timeline shown_part(const Timeline& whole, Json& limits) {
    Timeline part = whole;
    if (part.events.size() > kMostPageEvents) {
        limits["events_of"] = part.events.size();
        part.events.resize(kMostPageEvents);
    }
    return part;
}

Json page_regions(const Timeline& timeline, std::uint64_t begin, std::uint64_t end) {
    const std::size_t count = std::min(timeline.regions.size(), kMostPageRegions);
    Json regions = Json::array();
    for (std::uint32_t i = 0; i < count; ++i) {
        Json region = json_of(timeline.regions[i], begin);
        region.update(json_of(rows_of(timeline, i, end, {.bands = kMostBands / count}), begin));
        regions.push_back(std::move(region));
    }
    return regions;
}

Json page_mistakes(const Timeline& timeline) {
    Json mistakes = Json::array();
    for (const MistakeGroup& group : mistakes_of(timeline)) {
        mistakes.push_back({{"event", group.first}, {"events", group.events}});
    }
    return mistakes;
}

} // namespace

std::vector<MistakeGroup> mistakes_of(const Timeline& timeline) {
    std::vector<MistakeGroup> groups;
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, std::size_t> known;
    for (std::uint32_t i = 0; i < timeline.events.size(); ++i) {
        const TimelineEvent& event = timeline.events[i];
        if (event.kind != LineEvent::kMistake) {
            continue;
        }
        const auto [at, is_new] = known.try_emplace(
            {timeline.mistakes[event.mistake].rule, event.call, event.stack}, groups.size());
        if (is_new) {
            groups.push_back({.first = i, .events = {}});
        }
        groups[at->second].events.push_back(i);
    }
    return groups;
}

void write_timeline_json(std::ostream& out, const NamedTimeline& named) {
    const Timeline& timeline = named.timeline;
    const std::uint64_t begin = begin_of(timeline);
    const std::vector<MistakeGroup> mistakes = mistakes_of(timeline);
    const Json counts = {
        {"lost", timeline.lost}, {"left_out", timeline.left_out}, {"unreadable", timeline.unreadable}};
    out << "{\"schema\": 1,\n\"command\": "
        << Json(named.command).dump(-1, ' ', false, Json::error_handler_t::replace)
        << ",\n\"begin_ns\": " << begin << ",\n\"missing\": " << counts.dump();
    write_array(out, "regions", timeline.regions.size(),
                [&](std::size_t i) { return json_of(timeline.regions[i], begin); });
    write_array(out, "mistakes", mistakes.size(), [&](std::size_t i) {
        const TimelineEvent& event = timeline.events[mistakes[i].first];
        const TimelineMistake& mistake = timeline.mistakes[event.mistake];
        return Json{{"rule", mistake.rule},
                    {"call", timeline.calls[event.call]},
                    {"what", mistake.what},
                    {"remedy", mistake.remedy},
                    {"events", mistakes[i].events}};
    });
    write_array(out, "events", timeline.events.size(),
                [&](std::size_t i) { return json_of(timeline, timeline.events[i], begin); });
    write_array(out, "stacks", named.stacks.size() - 1, [&](std::size_t i) {
        Json frames = Json::array();
        for (const Place& place : named.stacks[i + 1]) {
            frames.push_back(json_of(place));
        }
        return frames;
    });
    out << "\n}\n";
}

void write_timeline_page(std::ostream& out, const NamedTimeline& named) {
    const std::uint64_t begin = begin_of(named.timeline);
    Json limits = Json::object();
    const Timeline timeline = shown_part(named.timeline, limits);
    const std::uint64_t end = end_of(timeline);
    Json events = Json::array();
    for (const TimelineEvent& event : timeline.events) {
        events.push_back(json_of(timeline, event, begin));
    }
    Json stacks = Json::array();
    for (std::size_t i = 1; i < named.stacks.size(); ++i) {
        stacks.push_back(texts_of(named.stacks[i]));
    }
    limits["regions_of"] = timeline.regions.size();
    limits["lost"] = timeline.lost + timeline.left_out;
    limits["unreadable"] = timeline.unreadable;
    const Json data = {{"command", named.command},
                       {"end_ns", end - begin},
                       {"limits", limits},
                       {"regions", page_regions(timeline, begin, end)},
                       {"mistakes", page_mistakes(timeline)},
                       {"events", std::move(events)},
                       {"stacks", std::move(stacks)}};
    page::write(out,
                {.title = "Coherence of " + named.command,
                 .style = kTimelineCss,
                 .body = kTimelineHtml,
                 .script = kTimelineJs},
                data);
}

} // namespace sluice::tools::check
