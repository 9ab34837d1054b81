// SPDX-License-Identifier: BSD-3-Clause
#include "tools/check/timeline_run.hpp"

#include <cstdlib>
#include <utility>

namespace sluice::tools::check {

namespace {

void say_of_timeline(const std::string& line) {
    say_in_one_piece("sluice: check: " + line + "\n");
}

std::vector<std::vector<Place>> places_of(const Timeline& timeline, Symbols& symbols) {
    std::vector<std::vector<Place>> stacks;
    stacks.reserve(timeline.stacks.size());
    for (const std::vector<Frame>& frames : timeline.stacks) {
        Finding finding;
        finding.sides.push_back({.title = {}, .frames = frames});
        stacks.push_back(std::move(symbols.named(finding).sides.front().places));
    }
    return stacks;
}

void say_what_timeline_lacks(const Timeline& timeline) {
    if (timeline.regions.empty()) {
        say_of_timeline("no region for the timeline: it needs DAT regions on simulated memory "
                        "(SLUICE_COHERENCE=simulated) or simulated hosts (sluice sync run)");
    }
    const std::uint64_t lost = timeline.lost + timeline.left_out;
    if (lost != 0) {
        say_of_timeline(tools::counted(lost, "event") +
                        " of the timeline found no place: --timeline-events makes room for more");
    }
    if (timeline.unreadable != 0) {
        say_of_timeline("records of the timeline that can't be understood: " +
                        std::to_string(timeline.unreadable));
    }
}

} // namespace

TimelineRun::TimelineRun(const CheckOptions& how) : events_(how.timeline_events) {
    const int to_standard_output =
        (how.timeline == "-" ? 1 : 0) + (how.timeline_json == "-" ? 1 : 0) + (how.json == "-" ? 1 : 0);
    if (to_standard_output > 1) {
        throw Failure(kExitUsage, "check: only one of the page, its JSON and the findings can go to standard "
                                  "output");
    }
    if (!how.timeline.empty()) {
        page_.emplace("check", how.timeline);
    }
    if (!how.timeline_json.empty()) {
        json_.emplace("check", how.timeline_json);
    }
}

void TimelineRun::add_settings(std::vector<std::string>& settings) const {
    settings.push_back("SLUICE_TIMELINE=" + std::to_string(events_) + ":" + file_.path());
    if (std::getenv("SLUICE_COHERENCE") == nullptr) {
        settings.emplace_back("SLUICE_COHERENCE=simulated");
    }
}

void TimelineRun::write(Symbols& symbols, const std::string& command) {
    TimelineReader reader;
    const std::uint64_t end = file_.size();
    for (std::string_view bytes; !(bytes = file_.read_next(end)).empty();) {
        reader.feed(bytes);
    }
    NamedTimeline named{.timeline = reader.finish(), .stacks = {}, .command = command};
    named.stacks = places_of(named.timeline, symbols);
    say_what_timeline_lacks(named.timeline);
    if (page_) {
        write_timeline_page(page_->stream(), named);
    }
    if (json_) {
        write_timeline_json(json_->stream(), named);
    }
}

void TimelineRun::finish() {
    for (std::optional<OutputFile>* each : {&page_, &json_}) {
        if (*each) {
            (*each)->finish();
        }
    }
}

} // namespace sluice::tools::check
