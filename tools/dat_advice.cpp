// SPDX-License-Identifier: BSD-3-Clause
#include "tools/dat_advice.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tools/library.hpp"
#include "tools/nearest.hpp"
#include "tools/probe.hpp"

namespace sluice::tools {

namespace {

bool is_ours(const std::string& library) {
    return library.empty() || library.find("libdapl-sluice") != std::string::npos;
}

// The file that DAT_OVERRIDE names is the only one.
bool is_overridden(const Options& options) {
    return options.root.empty() && std::getenv("DAT_OVERRIDE") != nullptr;
}

// Devices that Sluice's provider would show under their own names.
std::vector<std::string> own_names(const Options& options) {
    std::vector<std::string> names = device_names(options);
    for (const sluice_uroce_device& device : uroce_devices(options)) {
        if (device.is_hidden == 0) {
            names.emplace_back(device.name);
        }
    }
    return names;
}

// Whether a dat.conf names others' providers, so that devices have no names by themselves.
bool is_others_alone(const std::vector<DatEntry>& entries) {
    return std::ranges::any_of(
        entries, [](const DatEntry& entry) { return entry.counts() && !is_ours(entry.library); });
}

std::string register_command(const std::string& device) {
    return "`sudo sluice dat register " + device + "`";
}

// Why DEVICE, which is there, has no name for DAT, and how it gets one.
std::string how_to_name(const Options& options, const std::string& device,
                        const std::vector<DatEntry>& entries) {
    if (is_overridden(options)) {
        return "DAT_OVERRIDE names the only file that counts: `unset DAT_OVERRIDE`, or add an entry there";
    }
    if (is_others_alone(entries)) {
        return "as dat.conf names another provider, devices aren't there by themselves: " +
               register_command(device) + " names one";
    }
    const std::string why = why_not_loaded(kLibrary);
    return "Sluice's provider for DAT can't be loaded: " + (why.empty() ? std::string(kLibrary) : why) +
           " (package libdapl-sluice1)";
}

// The device of ours that ADAPTER is.
const sluice_uroce_device* find_uroce(const std::vector<sluice_uroce_device>& devices, const Adapter& adapter,
                                      const std::vector<DatEntry>& entries) {
    const auto entry = std::ranges::find_if(entries, [&adapter](const DatEntry& each) {
        return each.counts() && each.ia_name == adapter.name && is_ours(each.library);
    });
    const std::string name =
        entry == entries.end() || entry->instance_data.empty() ? adapter.name : entry->instance_data;
    const auto found = std::ranges::find_if(devices, [&name](const sluice_uroce_device& device) {
        return name == device.name || name == device.address;
    });
    return found == devices.end() ? nullptr : &*found;
}

} // namespace

std::string why_no_adapters(const Options& options, const std::vector<DatEntry>& entries) {
    const std::string lead = "No dat.conf names a provider for DAT 1";
    const std::vector<std::string> names = own_names(options);
    if (!options.root.empty()) {
        return lead + ".\n";
    }
    if (names.empty()) {
        return lead + ", and there is no device for Sluice's own; `sluice devices` tells how to get one.\n";
    }
    return lead + ". There is the device " + names.front() + ", but " +
           how_to_name(options, names.front(), entries) + ".\n";
}

bool print_adapters_or_why_none(const Options& options) {
    const std::vector<DatEntry> entries = dat_entries_for_programs(options);
    const std::vector<Adapter> adapters = read_adapters(options, entries);
    if (adapters.empty() && !options.json) {
        std::cout << why_no_adapters(options, entries);
    } else {
        print_adapters(options, adapters);
    }
    return !adapters.empty();
}

Failure no_such_adapter(const Options& options, const std::string& name, const std::vector<DatEntry>& entries,
                        const std::vector<Adapter>& adapters) {
    const std::string lead = "there is no '" + name + "'";
    const auto passed_over = std::ranges::find_if(
        entries, [&name](const DatEntry& entry) { return entry.is_entry && entry.ia_name == name; });
    if (passed_over != entries.end()) {
        return {kExitNoDevice, lead + " for these programs: " + passed_over->origin() +
                                   " is passed over, as " + passed_over->problem};
    }
    const std::vector<std::string> own = own_names(options);
    if (std::ranges::find(own, name) != own.end()) {
        return {kExitNoDevice, lead + " for DAT: " + how_to_name(options, name, entries)};
    }
    std::vector<std::string> names;
    names.reserve(adapters.size());
    for (const Adapter& adapter : adapters) {
        names.push_back(adapter.name);
    }
    return {kExitNoDevice, lead + did_you_mean(name, names) + "; see `sluice dat list`"};
}

std::string why_not_opened(const Options& options, const Adapter& adapter,
                           const std::vector<DatEntry>& entries) {
    if (!adapter.library.empty()) {
        if (const std::string why = why_not_loaded(adapter.library); !why.empty()) {
            return why + "; install the package that has it, or take the entry out of " + adapter.origin;
        }
    }
    if (!is_ours(adapter.library)) {
        return adapter.library +
               " doesn't open it; DAT_DBG_TYPE=0xffff shows why, if that is OpenFabrics' dapl";
    }
    const std::vector<sluice_uroce_device> devices = uroce_devices(options);
    const sluice_uroce_device* const device = find_uroce(devices, adapter, entries);
    if (device != nullptr && device->used_by[0] != '\0') {
        return std::string("UDP port 4791 of ") + device->address + " belongs to " + device->used_by +
               "; end it, or open another device: `sluice devices` lists them";
    }
    return "`sluice doctor` looks for the reason, and SLUICE_LOG=info shows what was tried";
}

} // namespace sluice::tools
