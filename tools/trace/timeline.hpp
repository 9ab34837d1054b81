// SPDX-License-Identifier: BSD-3-Clause
//
// Recordings as Chrome's trace events, which ui.perfetto.dev and chrome://tracing open: what a thread did
// stands on its track, and each request is an asynchronous slice from its post to its completion.
#pragma once

#include <ostream>
#include <span>

#include "tools/trace/recording.hpp"
#include "tools/trace/requests.hpp"

namespace sluice::tools::trace {

struct TracedProcess {
    Recording recording;
    Requests requests;
};

struct TraceTotals {
    std::uint64_t posts = 0; // that weren't refused
    std::uint64_t completions = 0;
    std::uint64_t lost = 0;
    std::uint64_t unreadable = 0;
    std::uint64_t unseen = 0; // objects whose requests weren't recorded
};
TraceTotals totals_of(const TracedProcess& process);

// COMMAND is what was run. Written piece by piece: a recording may have a million events.
void write_timeline(std::ostream& out, std::span<const TracedProcess> processes, const std::string& command);

} // namespace sluice::tools::trace
