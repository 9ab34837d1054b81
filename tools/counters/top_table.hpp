// SPDX-License-Identifier: BSD-3-Clause
//
// What `sluice top` shows, as lines of text for a width.
#pragma once

#include <string>
#include <vector>

#include "tools/counters/rates.hpp"

namespace sluice::tools::counters {

enum class SortedBy { kBytes, kPackets, kRetransmissions };

struct TopLook {
    SortedBy sorted_by = SortedBy::kBytes;
    std::size_t columns = 80;
    bool unicode = false; // whether the terminal shows blocks
};

// "1.23M": three digits.
std::string in_short(double value);

// A head, and a line for each device in each process, none wider than LOOK.columns. Where it is too wide,
// columns go in this order: address, last minute, device, packets, retransmissions, received bytes, process;
// that which is sorted by stays.
std::vector<std::string> top_table(const Rates& rates, const TopLook& look);

// All processes in a line.
std::string top_title(const Rates& rates, const TopLook& look);

} // namespace sluice::tools::counters
