// SPDX-License-Identifier: BSD-3-Clause
//
// The environment variables of Sluice: one table of all of them, one way to read them.
//
// Every variable begins with SLUICE_. A program that runs with more rights than its caller
// (setuid, file capabilities) sees none of them. A SLUICE_ name that is not in the table is a
// typing error that would otherwise do nothing, silently: it is warned about once.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "core/result.hpp"

namespace sluice {

enum class Setting {
    kCacheflush,
    kCheck,
    kCoherence,
    kDatHugePages,
    kLog,
    kPersistence,
    kSyncCheck,
    kSyncHost,
    kTimeline,
    kTrace,
    kUroce,
    kUroceCounters,
    kUroceFaults,
    kUroceGuard,
    kUroceKeepalive,
    kUroceNeighbours,
    kUrocePcap,
    kUroceSilence,
};

struct SettingInfo {
    Setting setting;
    const char* name;          // as in the environment
    const char* values;        // what may stand there
    const char* default_value; // what holds when it is unset
    const char* meaning;       // one line for help and man pages
};

// Every variable that Sluice reads, in alphabetical order.
std::span<const SettingInfo> all_settings() noexcept;

// Its name in the environment.
const char* setting_name(Setting setting) noexcept;

// The variable's value, or null when it is unset or the program runs with raised privileges.
// The text belongs to the environment: copy it if it must outlive a setenv().
const char* setting_value(Setting setting) noexcept;

// One of several alternatives, and what stands behind its ':'.
struct Choice {
    std::size_t index = 0;
    std::string_view rest; // up to the end of the text
};

// VALUES is alternatives with '|' between them, and ends at a ',' or '['. An alternative is a word, or a word
// and ":NAME", where NAME is any text but an empty one.
std::optional<Choice> find_choice(std::string_view values, std::string_view text) noexcept;

// The alternative of SETTING's values that TEXT is.
Result<Choice> parse_choice(Setting setting, std::string_view text);

// A number of seconds up to the one at the end of SETTING's values. An empty TEXT means USUALLY.
Result<unsigned> parse_seconds(Setting setting, std::string_view text, unsigned usually);

// Calls FOUND(context, name) for each name in ENVIRONMENT (a null-terminated list of
// "NAME=value") that begins with SLUICE_ and that no setting has. In a program with more rights than its
// caller there are none.
void find_unknown_settings(char* const* environment, void (*found)(void* context, std::string_view name),
                           void* context);

} // namespace sluice
