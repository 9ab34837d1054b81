// SPDX-License-Identifier: BSD-3-Clause
#include "provider/config/config.hpp"

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

Listed listed(const char* name, const Said<Coherence>& said, const char* values, const char* meaning) {
    return {name,   to_string(said.value), said.is_said() ? at_line(said.line) : "default", "auto", values,
            meaning};
}

constexpr const char* kCoherenceMeaning = "what devices are taken for, instead of finding it out";
constexpr const char* kIoMeaning = "whether caches on the devices' side are taken to be seen by the CPU";

void list_environment(std::vector<Listed>& all) {
    for (const SettingInfo& info : all_settings()) {
        const char* value = setting_value(info.setting);
        all.push_back({info.name, value == nullptr ? info.default_value : value,
                       value == nullptr ? "default" : "environment", info.default_value, info.values,
                       info.meaning});
    }
}

} // namespace

Result<File> load(const FileTree& tree) {
    if (!tree.has_entry(kPath)) {
        return File{};
    }
    FileStatus status{};
    Result<std::string> text = tree.read(kPath, kMaxFileBytes, &status);
    if (!text) {
        return std::move(text).error();
    }
    if (runs_with_privileges() && !is_trustworthy(status)) {
        SLUICE_LOG(
            kWarning, "config",
            "%s is ignored: with privileges, only a file that belongs to root and that nobody else may "
            "write is read (chown root:root, chmod 0644)",
            kPath);
        return File{};
    }
    return parse_file(*text, kPath);
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

Result<std::vector<Listed>> list(const FileTree& tree) {
    Result<File> file = load(tree);
    if (!file) {
        return std::move(file).error();
    }
    std::vector<Listed> all;
    list_environment(all);
    const Claim claim = claimed_drivers(tree);
    const bool enabled = !file->claim.is_said() && tree.exists(kDriverFile);
    all.push_back({"claim", to_string(claim),
                   file->claim.is_said() ? at_line(file->claim.line)
                   : enabled             ? kDriverFile
                                         : "default",
                   "none; rxe siw after `sluice provider enable`", "none, or one or both of rxe and siw",
                   "which kernel drivers' devices the plugin takes"});
    constexpr const char* kValues = "auto|coherent|noncoherent|simulated";
    constexpr const char* kIoValues = "auto|coherent|noncoherent";
    all.push_back(listed("coherence", file->general.coherence, kValues, kCoherenceMeaning));
    all.push_back(listed("io-coherence", file->general.io_coherence, kIoValues, kIoMeaning));
    for (const DeviceSection& device : file->devices) {
        if (device.coherence.is_said()) {
            all.push_back(listed(("coherence of " + device.name).c_str(), device.coherence, kValues,
                                 kCoherenceMeaning));
        }
        if (device.io_coherence.is_said()) {
            all.push_back(listed(("io-coherence of " + device.name).c_str(), device.io_coherence, kIoValues,
                                 kIoMeaning));
        }
        if (device.address.is_said()) {
            all.push_back({"address of " + device.name, device.address.value, at_line(device.address.line),
                           "uroceN: 127.0.0.(N+1)", "an IPv4 or IPv6 address of this machine",
                           "where the device lives, unless SLUICE_UROCE says otherwise"});
        }
    }
    return all;
}

} // namespace sluice::config
