// SPDX-License-Identifier: BSD-3-Clause
#include "tools/counters/uses.hpp"

#include <algorithm>
#include <tuple>

#include "tools/nearest.hpp"

namespace sluice::tools::counters {

std::vector<UroceUse> selected_uses(const StatOptions& wanted) {
    std::vector<UroceUse> uses = uroce_uses();
    std::erase_if(uses, [&](const UroceUse& use) {
        return (!wanted.device.empty() && use.device != wanted.device) ||
               (wanted.pid != 0 && use.pid != wanted.pid);
    });
    std::ranges::stable_sort(uses, {}, [](const UroceUse& use) { return std::tie(use.device, use.pid); });
    return uses;
}

std::string nothing_found(const StatOptions& wanted) {
    std::vector<std::string> used;
    for (const UroceUse& use : uroce_uses()) {
        used.push_back(use.device);
    }
    const std::string device = wanted.device.empty() ? "a uroce device" : wanted.device;
    const std::string fact = wanted.pid == 0 ? "no process of this user has used "
                                             : "process " + std::to_string(wanted.pid) + " hasn't used ";
    return fact + device + did_you_mean(wanted.device, used) +
           ", or it keeps its counters in another directory (SLUICE_UROCE_COUNTERS)";
}

std::uint64_t sum(const NamedCounters& counters, const std::string& begin, const std::string& end) {
    std::uint64_t total = 0;
    for (const auto& [name, value] : counters) {
        total += name.starts_with(begin) && name.ends_with(end) ? value : 0;
    }
    return total;
}

std::uint64_t failed_completions(const UroceUse& use) {
    return sum(use.counters, "completion.") - sum(use.counters, "completion.success") -
           sum(use.counters, "completion.flushed");
}

} // namespace sluice::tools::counters
