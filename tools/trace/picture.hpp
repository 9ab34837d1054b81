// SPDX-License-Identifier: BSD-3-Clause
//
// Recordings as a page: tracks of threads and queues over time, and how long requests took, by queue and
// operation.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "tools/trace/timeline.hpp"

namespace sluice::tools::trace {

// Requests, calls and instants each; the rest is left out, and the page says so. A browser draws them all at
// once.
inline constexpr std::size_t kMostPictured = 200000;

// COMMAND is what was run.
void write_picture(std::ostream& out, std::span<const TracedProcess> processes, const std::string& command);

} // namespace sluice::tools::trace
