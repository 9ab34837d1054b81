// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice sync run --hosts N`: copies of a command as hosts whose caches know nothing of each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/output.hpp"

namespace sluice::tools {

struct HostOptions {
    unsigned hosts = 2;
    std::optional<std::uint64_t> seed; // drawn if there is none
    unsigned evictions = 0;            // lines that each call evicts besides what it does
    unsigned timeout_seconds = 0;      // 0: none
};

// COMMAND may have several parts, as for ranks.
int run_sync_run(const Options& options, const HostOptions& how, const std::vector<std::string>& command);

} // namespace sluice::tools
