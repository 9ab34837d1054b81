// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice stat` and `sluice top` choose and add up among the counters of processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/commands.hpp"
#include "tools/library.hpp"

namespace sluice::tools::counters {

// By device and process.
std::vector<UroceUse> selected_uses(const StatOptions& wanted);

// Why there is none of these.
std::string nothing_found(const StatOptions& wanted);

// Of the counters whose names begin and end so.
std::uint64_t sum(const NamedCounters& counters, const std::string& begin, const std::string& end = "");

// Without those that were flushed.
std::uint64_t failed_completions(const UroceUse& use);

} // namespace sluice::tools::counters
