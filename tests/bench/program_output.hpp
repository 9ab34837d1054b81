// SPDX-License-Identifier: BSD-3-Clause
//
// Figures out of what perftest and ucx_perftest print. None: the output hasn't the figure, for instance
// because the program failed, or another version prints another table.
#pragma once

#include <optional>
#include <string_view>

namespace sluice::bench {

// The median of a latency test, in microseconds.
std::optional<double> perftest_median_us(std::string_view output);
// The average of a bandwidth test, in units of 2^20 bytes per second.
std::optional<double> perftest_mib_per_s(std::string_view output);
// Messages of a bandwidth test, in millions per second.
std::optional<double> perftest_million_messages_per_s(std::string_view output);

// From the line "Final:". The median of a latency test, in microseconds.
std::optional<double> ucx_median_us(std::string_view output);
// Of a bandwidth test as a whole, in units of 2^20 bytes per second.
std::optional<double> ucx_mib_per_s(std::string_view output);

} // namespace sluice::bench
