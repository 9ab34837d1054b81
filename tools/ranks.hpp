// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice run --ranks N`: copies of a command that talk to each other over uroce, for tests.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools {

struct RankOptions {
    unsigned ranks = 2;
    unsigned timeout_seconds = 0;         // 0: none
    std::vector<std::string> environment; // "LD_PRELOAD=...": what shows uroce's devices
};

// COMMAND may have several parts, separated by ":": rank N gets the Nth, and all behind the last one that.
// Gives 0, or the status of the first that failed.
int run_ranks(const RankOptions& options, const std::vector<std::string>& command);

} // namespace sluice::tools
