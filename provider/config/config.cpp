// SPDX-License-Identifier: BSD-3-Clause
#include "provider/config/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/log.hpp"
#include "core/settings.hpp"

namespace sluice::config {

namespace {

std::string at_line(int line) {
    return std::string(kPath) + ":" + std::to_string(line);
}

std::string_view environment_text() {
    const char* text = setting_value(Setting::kCoherence);
    return text == nullptr ? "" : text;
}

Decision decide(const Said<Coherence>& special, const Said<Coherence>& general) {
    const Said<Coherence>& said = special.is_said() ? special : general;
    if (!said.is_said() || said.value == Coherence::kAuto) {
        return {};
    }
    return {said.value, at_line(said.line), false};
}

Listed listed(const std::string& name, const Said<Coherence>& said, bool is_of_cpu) {
    return {name,
            to_string(said.value),
            said.is_said() ? at_line(said.line) : "default",
            "auto",
            coherence_values(is_of_cpu),
            is_of_cpu ? "what devices are taken for, instead of finding it out"
                      : "whether caches on the devices' side are taken to be seen by the CPU"};
}

// What the environment says, and whether it is understood.
void take_environment(Listed& listed, Setting setting, CheckSetting check) {
    const char* const value = setting_value(setting);
    if (value == nullptr) {
        return;
    }
    listed.value = value;
    listed.origin = "environment";
    if (Result<void> verdict = check(setting, value); !verdict) {
        listed.problem = verdict.error().text();
    }
}

void list_environment(std::vector<Listed>& all, CheckSetting check) {
    for (const SettingInfo& info : all_settings()) {
        Listed listed{info.name,          info.default_value, "default",
                      info.default_value, info.values,        info.meaning};
        if (info.setting == Setting::kCoherence) {
            listed.values = coherence_values(true) + ", or DEV=VALUE,... for single devices";
        }
        take_environment(listed, info.setting, check);
        all.push_back(std::move(listed));
    }
}

// Somebody may set as many as fit.
constexpr std::size_t kMostUnknown = 64;

void list_unknown_variables(std::vector<Listed>& all) {
    std::vector<std::string> names;
    find_unknown_settings(
        environ,
        [](void* context, std::string_view name) {
            static_cast<std::vector<std::string>*>(context)->emplace_back(name);
        },
        &names);
    names.resize(std::min(names.size(), kMostUnknown));
    for (const std::string& name : names) {
        const char* const value = std::getenv(name.c_str());
        all.push_back({.name = name,
                       .value = value == nullptr ? "" : value,
                       .origin = "environment",
                       .default_value = "",
                       .values = "",
                       .meaning = "",
                       .problem = "no such variable",
                       .is_unknown = true});
    }
}

// In the place of the same key's default, if that is there.
void list_problem(std::vector<Listed>& all, const Problem& problem) {
    Listed listed{.name = problem.name,
                  .value = problem.value,
                  .origin = at_line(problem.line),
                  .default_value = "",
                  .values = problem.values,
                  .meaning = "",
                  .problem = problem.text,
                  .is_unknown = problem.is_unknown};
    const auto same = std::ranges::find_if(
        all, [&listed](const Listed& each) { return each.name == listed.name && each.origin == "default"; });
    if (same == all.end()) {
        all.push_back(std::move(listed));
        return;
    }
    listed.default_value = same->default_value;
    listed.meaning = same->meaning;
    *same = std::move(listed);
}

void list_claim(std::vector<Listed>& all, const File& file, const FileTree& tree) {
    const bool enabled = !file.claim.is_said() && tree.exists(kDriverFile);
    all.push_back({"claim", to_string(file.claim.is_said() ? file.claim.value : Claim{enabled, enabled}),
                   file.claim.is_said() ? at_line(file.claim.line)
                   : enabled            ? kDriverFile
                                        : "default",
                   "none; rxe siw after `sluice provider enable`", kClaimValues,
                   "which kernel drivers' devices the plugin takes"});
}

void list_section(std::vector<Listed>& all, const DeviceSection& device) {
    if (device.coherence.is_said()) {
        all.push_back(listed("coherence of " + device.name, device.coherence, true));
    }
    if (device.io_coherence.is_said()) {
        all.push_back(listed("io-coherence of " + device.name, device.io_coherence, false));
    }
    if (device.address.is_said()) {
        all.push_back({"address of " + device.name, device.address.value, at_line(device.address.line),
                       "uroceN: 127.0.0.(N+1)", kAddressValues,
                       "where the device lives, unless SLUICE_UROCE says otherwise"});
    }
}

// The file's text; empty where there is none, or where it is not to be trusted.
Result<std::string> read_text(const FileTree& tree) {
    if (!tree.has_entry(kPath)) {
        return std::string();
    }
    FileStatus status{};
    Result<std::string> text = tree.read(kPath, kMaxFileBytes, &status);
    if (text && runs_with_privileges() && !is_trustworthy(status)) {
        SLUICE_LOG(
            kWarning, "config",
            "%s is ignored: with privileges, only a file that belongs to root and that nobody else may "
            "write is read (chown root:root, chmod 0644)",
            kPath);
        return std::string();
    }
    return text;
}

} // namespace

Result<File> load(const FileTree& tree) {
    Result<std::string> text = read_text(tree);
    return text ? parse_file(*text, kPath) : std::move(text).error();
}

Result<Decisions> decisions_for(const FileTree& tree, std::string_view device) {
    Result<File> file = load(tree);
    if (!file) {
        return std::move(file).error();
    }
    static const DeviceSection nothing;
    const DeviceSection* found = file->find(device);
    const DeviceSection& special = found == nullptr ? nothing : *found;
    Decisions decisions{decide(special.coherence, file->general.coherence),
                        decide(special.io_coherence, file->general.io_coherence)};
    Result<Coherence> environment = parse_environment(environment_text(), device);
    if (!environment) {
        return std::move(environment).error();
    }
    if (*environment != Coherence::kAuto) {
        decisions.coherence = {*environment, "SLUICE_COHERENCE", true};
    }
    return decisions;
}

Claim claimed_drivers(const FileTree& tree) {
    const Result<File> file = load(tree);
    if (!file) {
        SLUICE_LOG(kWarning, "config", "%s; no device is claimed", file.error().text());
        return {};
    }
    if (file->claim.is_said()) {
        return file->claim.value;
    }
    const bool enabled = tree.exists(kDriverFile);
    return {enabled, enabled};
}

Result<std::vector<Listed>> list(const FileTree& tree, CheckSetting check) {
    const Result<std::string> text = read_text(tree);
    if (!text) {
        return text.error().clone();
    }
    const Understood understood = understand_file(*text);
    std::vector<Listed> all;
    list_environment(all, check);
    list_claim(all, understood.file, tree);
    all.push_back(listed("coherence", understood.file.general.coherence, true));
    all.push_back(listed("io-coherence", understood.file.general.io_coherence, false));
    for (const DeviceSection& device : understood.file.devices) {
        list_section(all, device);
    }
    for (const Problem& problem : understood.problems) {
        list_problem(all, problem);
    }
    list_unknown_variables(all);
    return all;
}

} // namespace sluice::config
