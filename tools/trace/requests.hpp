// SPDX-License-Identifier: BSD-3-Clause
//
// Which completion is of which request. On a queue requests end in the order in which they were posted, so
// that one without a completion has ended when a later one has; which one a completion names is looked for by
// wr_id, the oldest first. A failed completion doesn't say whether it is of a send or of a receive: a send is
// taken first.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/trace/recording.hpp"

namespace sluice::tools::trace {

enum class Ending : std::uint8_t {
    kOpen,      // nothing says that it has ended
    kCompleted, // by its own completion
    kPassed,    // without a completion, when a later one came
    kRefused,   // the device never took it
    kDestroyed, // with its queue pair
};

struct TracedRequest {
    std::size_t post = 0; // indices of events
    std::size_t end = 0;  // of what has ended it; unless it is open
    Ending ending = Ending::kOpen;
};

struct Requests {
    std::vector<TracedRequest> all; // in the order of the posts
    std::uint64_t unmatched = 0;    // completions of requests that nobody has seen posted
};

Requests requests_of(const Recording& recording);

const char* name_of_ending(Ending ending);

} // namespace sluice::tools::trace
