// SPDX-License-Identifier: BSD-3-Clause
#include "provider/check_setting.hpp"

#include "core/coherence/cacheflush.hpp"
#include "core/log.hpp"
#include "provider/config/parser.hpp"
#include "provider/uroce/device/registry.hpp"

namespace sluice::provider {

Result<void> check_setting(Setting setting, const char* text) {
    switch (setting) {
    case Setting::kCacheflush:
        return coherence::check_forced(text);
    case Setting::kCheck:
    case Setting::kDatHugePages:
    case Setting::kPersistence:
    case Setting::kSyncCheck: {
        const Result<Choice> choice = parse_choice(setting, text);
        return choice || *text == '\0' ? Result<void>() : choice.error().clone();
    }
    case Setting::kCoherence: {
        const Result<config::Coherence> parsed = config::parse_environment(text, "");
        return parsed ? Result<void>() : parsed.error().clone();
    }
    case Setting::kLog:
        return check_log_levels(text);
    case Setting::kUroce:
    case Setting::kUroceCounters:
    case Setting::kUroceFaults:
    case Setting::kUroceGuard:
    case Setting::kUroceKeepalive:
    case Setting::kUroceNeighbours:
    case Setting::kUrocePcap:
    case Setting::kUroceSilence:
        return uroce::device::check_setting(setting, text);
    case Setting::kSyncHost:
    case Setting::kTimeline:
    case Setting::kTrace: // other libraries'
        return {};
    }
    return {};
}

} // namespace sluice::provider
