// SPDX-License-Identifier: BSD-3-Clause
#include "core/settings.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

namespace sluice {

namespace {

constexpr std::string_view kPrefix = "SLUICE_";

// In the order of the enumeration, so that a setting is its own index.
constexpr std::array kSettings{
    SettingInfo{Setting::kCacheflush, "SLUICE_CACHEFLUSH", "name of a cache instruction",
                "the best that the CPU has",
                "use a weaker cache instruction, e.g. clflush; never one that the CPU lacks"},
    SettingInfo{Setting::kCheck, "SLUICE_CHECK", "quick:FILE|full:FILE|every:FILE|pedantic:FILE", "none",
                "how much of a program is checked, and the file for what is found; `sluice check` sets it"},
    SettingInfo{Setting::kCoherence, "SLUICE_COHERENCE",
                "auto|coherent|noncoherent|simulated, or DEV=VALUE,... for single devices", "auto",
                "what devices are taken for, instead of finding it out"},
    SettingInfo{Setting::kDatHugePages, "SLUICE_DAT_HUGE_PAGES", "yes|no", "no",
                "whether dat_lmr_create asks the kernel for huge pages under what it registers"},
    SettingInfo{Setting::kLog, "SLUICE_LOG", "none|error|warning|info|debug|trace[,AREA=LEVEL...]", "warning",
                "what is logged to standard error, in all and for single areas"},
    SettingInfo{Setting::kPersistence, "SLUICE_PERSISTENCE", "simulated:DIRECTORY", "none",
                "what survives a simulated cut of the power is kept there; `sluice persist run` sets it"},
    SettingInfo{Setting::kSyncCheck, "SLUICE_SYNC_CHECK", "yes|no", "no",
                "whether calls of libsluice-sync ask the kernel about their pages first"},
    SettingInfo{Setting::kSyncHost, "SLUICE_SYNC_HOST", "HOST:HOSTS:SEED:EVICTIONS:DIRECTORY", "none",
                "which simulated host a process is on; `sluice sync run` sets it"},
    SettingInfo{Setting::kTimeline, "SLUICE_TIMELINE", "EVENTS:FILE", "none",
                "where the states of cache lines are recorded; `sluice check --timeline` sets it"},
    SettingInfo{Setting::kTrace, "SLUICE_TRACE", "EVENTS:DIRECTORY", "none",
                "where a program's use of verbs is recorded; `sluice trace` sets it"},
    SettingInfo{Setting::kUroce, "SLUICE_UROCE", "INTERFACE,... or uroceN=ADDRESS,...",
                "lo and each interface that is up",
                "which interfaces are uroce devices, or addresses for these, IPv4 or IPv6"},
    SettingInfo{Setting::kUroceCounters, "SLUICE_UROCE_COUNTERS", "a directory, or no",
                "/dev/shm, $XDG_RUNTIME_DIR, $TMPDIR or /tmp",
                "where processes keep what their uroce devices count, for `sluice stat`"},
    SettingInfo{Setting::kUroceFaults, "SLUICE_UROCE_FAULTS",
                "FAULT=WHEN[:TIME],...; see docs/uroce-faults.md", "none",
                "what goes wrong on purpose on uroce devices, for tests of programs"},
    SettingInfo{Setting::kUroceGuard, "SLUICE_UROCE_GUARD", "signal|syscall", "signal",
                "how a uroce device survives that the program unmaps registered memory"},
    SettingInfo{Setting::kUroceKeepalive, "SLUICE_UROCE_KEEPALIVE", "seconds, 0 to 3600", "2",
                "how often rdma_cm's peers on other hosts are asked whether they live; 0: never"},
    SettingInfo{Setting::kUroceNeighbours, "SLUICE_UROCE_NEIGHBOURS", "memory|packets", "memory",
                "how uroce devices reach other processes of this host and user"},
    SettingInfo{Setting::kUrocePcap, "SLUICE_UROCE_PCAP", "path of a file", "none",
                "where uroce devices record what they send and receive, for Wireshark"},
    SettingInfo{Setting::kUroceSilence, "SLUICE_UROCE_SILENCE", "seconds, 0 to 3600", "8",
                "how long a peer of a uroce device is silent, at least, before a connection ends"},
};

constexpr bool is_in_order() {
    for (std::size_t i = 0; i < kSettings.size(); ++i) {
        if (static_cast<std::size_t>(kSettings[i].setting) != i) {
            return false;
        }
    }
    return true;
}
static_assert(is_in_order());

const SettingInfo& info_of(Setting setting) noexcept {
    return kSettings[static_cast<std::size_t>(setting)];
}

// What stands before the first SEPARATOR.
std::string_view before(std::string_view text, char separator) noexcept {
    return text.substr(0, text.find(separator));
}

Error wrong_value(const SettingInfo& info, std::string_view text) {
    std::string values = info.values;
    for (std::size_t at = 0; (at = values.find('|', at)) != std::string::npos;) {
        values.replace(at, 1, " or ");
    }
    return Error::format(ErrorKind::kInvalidArgument, 0, "%s is '%.*s'; it may be %s", info.name,
                         static_cast<int>(text.size()), text.data(), values.c_str());
}

std::optional<Choice> match(std::string_view alternative, std::string_view text) noexcept {
    const std::string_view word = before(alternative, ':');
    if (word.size() == alternative.size()) {
        return text == word ? std::optional(Choice{}) : std::nullopt;
    }
    const bool fits = text.starts_with(word) && text.size() > word.size() + 1 && text[word.size()] == ':';
    return fits ? std::optional(Choice{.rest = text.substr(word.size() + 1)}) : std::nullopt;
}

} // namespace

std::span<const SettingInfo> all_settings() noexcept {
    return kSettings;
}

const char* setting_name(Setting setting) noexcept {
    return info_of(setting).name;
}

const char* setting_value(Setting setting) noexcept {
    return secure_getenv(setting_name(setting));
}

std::optional<Choice> find_choice(std::string_view values, std::string_view text) noexcept {
    values = values.substr(0, values.find_first_of(",["));
    for (std::size_t index = 0; !values.empty(); ++index) {
        const std::string_view alternative = before(values, '|');
        if (std::optional<Choice> found = match(alternative, text)) {
            found->index = index;
            return found;
        }
        values.remove_prefix(std::min(alternative.size() + 1, values.size()));
    }
    return std::nullopt;
}

Result<Choice> parse_choice(Setting setting, std::string_view text) {
    const std::optional<Choice> found = find_choice(info_of(setting).values, text);
    return found ? Result<Choice>(*found) : wrong_value(info_of(setting), text);
}

Result<unsigned> parse_seconds(Setting setting, std::string_view text, unsigned usually) {
    const std::string_view values = info_of(setting).values;
    const std::string_view limit = values.substr(values.rfind(' ') + 1);
    unsigned longest = 0;
    (void)std::from_chars(limit.data(), limit.data() + limit.size(), longest);
    unsigned seconds = usually;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (!text.empty() && (error != std::errc() || end != text.data() + text.size() || seconds > longest)) {
        return wrong_value(info_of(setting), text);
    }
    return seconds;
}

void find_unknown_settings(char* const* environment, void (*found)(void* context, std::string_view name),
                           void* context) {
    if (getauxval(AT_SECURE) != 0) {
        return; // as setting_value()
    }
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        const std::string_view entry = *environment;
        const std::string_view name = entry.substr(0, entry.find('='));
        const bool known =
            std::ranges::any_of(kSettings, [name](const SettingInfo& info) { return name == info.name; });
        if (name.starts_with(kPrefix) && !known) {
            found(context, name);
        }
    }
}

} // namespace sluice
