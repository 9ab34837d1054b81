// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/threshold_check.hpp"

#include <array>
#include <string>

#include "core/boundary.hpp"
#include "core/report/finding.hpp"
#include "udapl/provider/program_stack.hpp"

namespace sluice::dapl {

// A program that waits for some events or some time, whichever is first, is right.
void check_threshold(std::size_t threshold, std::size_t there, std::size_t suppressed) noexcept {
    const bool is_short = there != 0 && there < threshold && there + suppressed >= threshold;
    if (!is_short || report::depth() != report::Depth::kPedantic) {
        return;
    }
    (void)at_boundary("check_threshold", [&]() -> Result<void> {
        const report::Stack stack = of_program(report::capture());
        const std::array sides{report::Side{.title = "the program waited", .stack = &stack}};
        report::write({.rule = "threshold-never-reached",
                       .object = "a wait for " + std::to_string(threshold) + " events",
                       .what = "it has ended by its time with " + std::to_string(there) + " events, and " +
                               std::to_string(suppressed) +
                               " transfers have ended meanwhile that make none, since they were posted with "
                               "DAT_COMPLETION_SUPPRESS_FLAG",
                       .remedy = "count the transfers that make an event, or wait with a threshold of 1 and "
                                 "take what there is",
                       .sides = sides});
        return {};
    });
}

} // namespace sluice::dapl
