// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/cacheflush.hpp"

#include <string>

#include "core/coherence/choice.hpp"
#include "core/coherence/power.hpp"
#include "core/log.hpp"
#include "core/settings.hpp"

namespace sluice::coherence {

namespace {

void persist_run(const Ops& ops, LineRun run) noexcept {
    const Range range{run.first, run.last - run.first + ops.line_bytes};
    persist_in_simulation(&range, 1);
}

void persist_ranges(const Ops&, const Range* ranges, std::uint64_t count) noexcept {
    persist_in_simulation(ranges, count);
}

Result<Ops> probe() {
    const char* forced = setting_value(Setting::kCacheflush);
    forced = forced == nullptr ? "" : forced;
    Result<Ops> ops = choose_for_this_cpu(forced);
    if (ops) {
        const Result<bool> simulated = is_power_simulated();
        if (!simulated) {
            return simulated.error().clone();
        }
        if (*simulated) {
            ops->persist = {"simulated", persist_run, nullptr, persist_ranges};
        }
        ops->is_forced = *forced != '\0';
        SLUICE_LOG(kInfo, "cacheflush", "clean with %s, invalidate with %s, lines of %zu bytes, granule %zu",
                   ops->clean.name, ops->invalidate.name, ops->line_bytes, ops->granule_bytes);
    }
    return ops;
}

std::string names_of(std::span<const Candidate> candidates, bool present_only) {
    std::string names;
    for (const Candidate& candidate : candidates) {
        if (candidate.present || !present_only) {
            names += names.empty() ? "" : " ";
            names += candidate.name;
        }
    }
    return names;
}

} // namespace

Result<void> check_forced(std::string_view text) {
    const Result<Ops> ops = choose_for_this_cpu(text);
    return ops ? Result<void>() : ops.error().clone();
}

Result<const Ops*> native_ops() {
    static const Result<Ops> ops = probe();
    if (!ops) {
        return ops.error().clone();
    }
    return &*ops;
}

Result<std::size_t> choose_candidate(std::span<const Candidate> candidates, std::string_view forced) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const Candidate& candidate = candidates[i];
        if (candidate.present && (forced.empty() || forced == candidate.name)) {
            return i;
        }
        if (!forced.empty() && forced == candidate.name) {
            return Error::format(
                ErrorKind::kNotSupported, 0,
                "SLUICE_CACHEFLUSH=%s: this CPU doesn't have it; use one of: %s, or unset it", candidate.name,
                names_of(candidates, true).c_str());
        }
    }
    return Error::format(ErrorKind::kInvalidArgument, 0,
                         "SLUICE_CACHEFLUSH=%.*s: no such instruction on this architecture; it knows: %s",
                         static_cast<int>(forced.size()), forced.data(), names_of(candidates, false).c_str());
}

} // namespace sluice::coherence
