// SPDX-License-Identifier: BSD-3-Clause
//
// Reads the files in which processes count (ADR 76). Their bytes are a stranger's, whoever owns the file.
#pragma once

#include <string>
#include <vector>

#include "provider/uroce/device/counter_parser.hpp"

namespace sluice::uroce::device {

// Where the files of counters may be, the best place first; none if SLUICE_UROCE_COUNTERS says "no", or for a
// program with more rights than its caller, which leaves no files where others choose.
std::vector<std::string> counter_directories();

// Of all processes of this user, the oldest first. What can't be understood is skipped, with a line in the
// log. OWN is the descriptor of this process's own file, or -1. kNotFound: there is no directory to look in.
Result<std::vector<ProcessUse>> read_counters(int own);

// Of processes that have ended, the newest stay.
void remove_old_counters(const std::string& directory);

} // namespace sluice::uroce::device
