// SPDX-License-Identifier: BSD-3-Clause
#include "tools/library.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <span>

#include "tools/nearest.hpp"

namespace sluice::tools {

namespace {

std::string last_error;
KeptWarnings* keeper = nullptr;

void collect(void*, int level, const char* area, const char* message) {
    if (level == SLUICE_LOG_ERROR) {
        // "function: reason": a person at the command line needs the reason.
        const std::string text = message;
        const std::size_t colon = text.find(": ");
        last_error =
            text.starts_with("sluice_") && colon != std::string::npos ? text.substr(colon + 2) : text;
        return;
    }
    if (keeper != nullptr) {
        keeper->add(std::string(area) + ": " + message);
        return;
    }
    std::cerr << "sluice: " << (level == SLUICE_LOG_WARNING ? "warning: " : "") << area << ": " << message
              << '\n';
}

void require(int result) {
    if (result != 0) {
        throw Failure(result == ENODEV ? kExitNoDevice : kExitFailure,
                      last_error.empty() ? std::strerror(result) : last_error);
    }
}

const sluice_setting* find(const std::vector<sluice_setting>& settings, const std::string& name) {
    for (const sluice_setting& setting : settings) {
        if (setting.name == name) {
            return &setting;
        }
    }
    return nullptr;
}

} // namespace

void listen_to_library() {
    sluice_set_log_sink(collect, nullptr);
}

KeptWarnings::KeptWarnings() {
    keeper = this;
}

KeptWarnings::~KeptWarnings() {
    keeper = nullptr;
}

std::vector<std::string> device_names(const Options& options) {
    std::vector<std::string> names;
    require(sluice_list_devices(
        options.root_or_null(),
        [](void* context, const char* name) {
            static_cast<std::vector<std::string>*>(context)->emplace_back(name);
        },
        &names));
    return names;
}

std::vector<sluice_uroce_device> uroce_devices(const Options& options) {
    std::vector<sluice_uroce_device> all;
    if (!options.root.empty()) {
        return all;
    }
    sluice_uroce_device device{};
    int result = 0;
    while ((result = sluice_describe_uroce(static_cast<unsigned>(all.size()), &device, sizeof device)) == 0) {
        all.push_back(device);
    }
    require(result == ENOENT ? 0 : result);
    return all;
}

namespace {

// The library's text knows only devices of the kernel.
std::string hint_at_devices(const Options& options, const std::string& name) {
    const std::string said = last_error; // listing may replace it
    std::vector<std::string> names = device_names(options);
    std::string uroce;
    for (const sluice_uroce_device& device : uroce_devices(options)) {
        if (name == device.address || name == device.interface) {
            return " (did you mean '" + std::string(device.name) + "', which is at " + name + "?)";
        }
        names.emplace_back(device.name);
        uroce += std::string(" ") + device.name;
    }
    last_error = said;
    return did_you_mean(name, names) + (uroce.empty() ? "" : "; without a kernel there are:" + uroce);
}

} // namespace

sluice_device_attributes query_device(const Options& options, const std::string& name) {
    sluice_device_attributes attributes{};
    const int result =
        sluice_query_name(options.root_or_null(), name.c_str(), &attributes, sizeof attributes);
    if (result == ENODEV) {
        throw Failure(kExitNoDevice, last_error + hint_at_devices(options, name));
    }
    require(result);
    return attributes;
}

std::vector<sluice_attribute_description> describe(const sluice_device_attributes& attributes) {
    std::vector<sluice_attribute_description> all;
    sluice_attribute_description description{};
    while (sluice_describe_attribute(&attributes, sizeof attributes, static_cast<unsigned>(all.size()),
                                     &description, sizeof description) == 0) {
        all.push_back(description);
    }
    return all;
}

namespace {

NamedCounters named(std::span<const sluice_uroce_counter> counters) {
    NamedCounters made;
    made.reserve(counters.size());
    for (const sluice_uroce_counter& one : counters) {
        made.emplace_back(one.name, one.value);
    }
    return made;
}

} // namespace

std::vector<UroceUse> uroce_uses() {
    std::vector<UroceUse> all;
    require(sluice_list_uroce_counters(
        [](void* context, const sluice_uroce_use* use) {
            UroceUse made{.device = use->device,
                          .address = use->address,
                          .command = use->command,
                          .pid = use->pid,
                          .is_running = use->is_running != 0,
                          .opened_ns = use->opened_ns,
                          .counters = named({use->counters, use->count}),
                          .queue_pairs = {}};
            made.queue_pairs.reserve(use->queue_pair_count);
            for (const auto& one : std::span(use->queue_pairs, use->queue_pair_count)) {
                made.queue_pairs.push_back({one.qpn, one.peer_qpn, one.type, one.state, one.local, one.remote,
                                            named({one.counters, one.count})});
            }
            static_cast<std::vector<UroceUse>*>(context)->push_back(std::move(made));
        },
        &all));
    return all;
}

std::vector<sluice_setting> settings_and_problems(const Options& options) {
    std::vector<sluice_setting> all;
    sluice_setting setting{};
    int result = 0;
    while ((result = sluice_describe_setting(options.root_or_null(), static_cast<unsigned>(all.size()),
                                             &setting, sizeof setting)) == 0) {
        all.push_back(setting);
    }
    require(result == ENOENT ? 0 : result);
    return all;
}

std::vector<sluice_setting> settings(const Options& options) {
    std::vector<sluice_setting> all = settings_and_problems(options);
    for (const sluice_setting& setting : all) {
        if (setting.origin[0] == '/' && setting.problem[0] != '\0') {
            throw Failure(kExitFailure, std::string(setting.origin) + ": " + setting.problem);
        }
    }
    std::erase_if(all, [](const sluice_setting& setting) { return setting.is_unknown != 0; });
    return all;
}

std::string setting_value(const std::vector<sluice_setting>& settings, const std::string& name) {
    const sluice_setting* found = find(settings, name);
    return found == nullptr ? "" : found->value;
}

std::string setting_origin(const std::vector<sluice_setting>& settings, const std::string& name) {
    const sluice_setting* found = find(settings, name);
    return found == nullptr ? "" : found->origin;
}

} // namespace sluice::tools
