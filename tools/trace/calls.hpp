// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that take their time, of which a begin and an end are recorded.
#pragma once

#include <optional>
#include <vector>

#include "tools/trace/recording.hpp"

namespace sluice::tools::trace {

struct TracedCall {
    std::size_t begin = 0;          // the index of an event
    std::optional<std::size_t> end; // nothing: the process ended in it
};

// In the order of their begins.
std::vector<TracedCall> calls_of(const Recording& recording);

std::string name_of_call(const file::Event& begin);
const char* category_of_call(const file::Event& begin);

} // namespace sluice::tools::trace
