// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice sync run` tells a process about the simulated host on which it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace sluice::layers::hosts {

inline constexpr unsigned kMostHosts = 8;

struct Place {
    unsigned host = 0;
    unsigned hosts = 0;
    std::uint64_t seed = 0;
    unsigned evictions = 0; // lines that each call evicts besides what it does
    std::string directory;  // the hosts' images are there
};

// A text as SLUICE_SYNC_HOST has it.
Result<Place> parse_place(std::string_view text);

} // namespace sluice::layers::hosts
