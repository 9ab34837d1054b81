// SPDX-License-Identifier: BSD-3-Clause
//
// How a coherence timeline is written: as a page for a browser, and as a JSON document.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/check/report.hpp"
#include "tools/check/timeline.hpp"

namespace sluice::tools::check {

// With the places of its stacks, by the same indices.
struct NamedTimeline {
    Timeline timeline;
    std::vector<std::vector<Place>> stacks;
    std::string command;
};

// Mistakes that are the same to a reader: of one rule, with one missing call, at one place.
struct MistakeGroup {
    std::uint32_t first = 0; // the first event
    std::vector<std::uint32_t> events;
};
std::vector<MistakeGroup> mistakes_of(const Timeline& timeline);

void write_timeline_json(std::ostream& out, const NamedTimeline& named);
void write_timeline_page(std::ostream& out, const NamedTimeline& named);

} // namespace sluice::tools::check
