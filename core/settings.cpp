// SPDX-License-Identifier: BSD-3-Clause
#include "core/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sluice {

namespace {

constexpr std::string_view kPrefix = "SLUICE_";

// In the order of the enumeration, so that a setting is its own index.
constexpr std::array kSettings{
    SettingInfo{Setting::kCacheflush, "SLUICE_CACHEFLUSH", "name of a cache instruction",
                "the best that the CPU has",
                "use a weaker cache instruction, e.g. clflush; never one that the CPU lacks"},
    SettingInfo{Setting::kCheck, "SLUICE_CHECK", "quick:FILE|full:FILE|pedantic:FILE", "none",
                "how much of a program is checked, and the file for what is found; `sluice check` sets it"},
    SettingInfo{Setting::kCoherence, "SLUICE_COHERENCE",
                "auto|coherent|noncoherent|simulated, or DEV=VALUE,... for single devices", "auto",
                "what devices are taken for, instead of finding it out"},
    SettingInfo{Setting::kDatHugePages, "SLUICE_DAT_HUGE_PAGES", "yes|no", "no",
                "whether dat_lmr_create asks the kernel for huge pages under what it registers"},
    SettingInfo{Setting::kLog, "SLUICE_LOG", "error|warning|info|debug|trace[,AREA=LEVEL...]", "warning",
                "what is logged to standard error, in all and for single areas"},
    SettingInfo{Setting::kSyncCheck, "SLUICE_SYNC_CHECK", "yes|no", "no",
                "whether calls of libsluice-sync ask the kernel about their pages first"},
    SettingInfo{Setting::kSyncHost, "SLUICE_SYNC_HOST", "HOST:HOSTS:SEED:EVICTIONS:DIRECTORY", "none",
                "which simulated host a process is on; `sluice sync run` sets it"},
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

} // namespace

std::span<const SettingInfo> all_settings() noexcept {
    return kSettings;
}

const char* setting_name(Setting setting) noexcept {
    return kSettings[static_cast<std::size_t>(setting)].name;
}

const char* setting_value(Setting setting) noexcept {
    return secure_getenv(setting_name(setting));
}

void find_unknown_settings(char* const* environment, void (*found)(void* context, std::string_view name),
                           void* context) {
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
