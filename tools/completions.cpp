// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice complete-names`: what a shell's completion offers, one name a line. Nobody types it, so that it is
// in no list of commands, and it says nothing but names.
#include <algorithm>
#include <iostream>
#include <iterator>

#include "tools/commands.hpp"
#include "tools/dat_entries.hpp"
#include "tools/library.hpp"

namespace sluice::tools {

namespace {

using Names = std::vector<std::string>;

Names uroce_names(const Options& options) {
    Names names;
    for (const sluice_uroce_device& device : uroce_devices(options)) {
        names.emplace_back(device.name);
    }
    return names;
}

Names all_devices(const Options& options) {
    Names names = device_names(options);
    std::ranges::move(uroce_names(options), std::back_inserter(names));
    return names;
}

// A device that has counted may be gone.
Names counted_devices(const Options& options) {
    Names names = uroce_names(options);
    for (const UroceUse& use : uroce_uses()) {
        names.push_back(use.device);
    }
    return names;
}

Names counted_processes() {
    Names names;
    for (const UroceUse& use : uroce_uses()) {
        names.push_back(std::to_string(use.pid));
    }
    return names;
}

// What dat_ia_open() takes: adapters, and the addresses of devices without a kernel.
Names adapters(const Options& options) {
    Names names;
    for (const Adapter& adapter : read_adapters(options, dat_entries_for_programs(options))) {
        names.push_back(adapter.name);
    }
    for (const sluice_uroce_device& device : uroce_devices(options)) {
        names.emplace_back(device.address);
    }
    return names;
}

// What `sluice dat register` has named, for either API.
Names registered_adapters(const Options& options) {
    Names names;
    for (const DatEntry& entry : dat_entries_on_disk(options)) {
        if (entry.is_entry && entry.library.starts_with("libdapl-sluice")) {
            names.push_back(entry.ia_name);
        }
    }
    return names;
}

Names names_of(const Options& options, const std::string& kind) {
    return kind == "devices"      ? all_devices(options)
           : kind == "counted"    ? counted_devices(options)
           : kind == "processes"  ? counted_processes()
           : kind == "adapters"   ? adapters(options)
           : kind == "registered" ? registered_adapters(options)
                                  : Names();
}

// What can't stand in a line, or would be a command to the terminal that shows it.
bool can_be_offered(const std::string& name) {
    return !name.empty() && std::ranges::none_of(name, [](char each) {
        return static_cast<unsigned char>(each) < ' ' || each == '\x7f';
    });
}

} // namespace

ExitStatus run_complete_names(const Options& options, const std::string& kind) {
    const KeptWarnings warnings;
    Names names;
    try {
        names = names_of(options, kind);
    } catch (const Failure&) { // a person who presses a key wants names, and no messages between them
        return kExitOk;
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
        if (can_be_offered(name)) {
            std::cout << name << '\n';
        }
    }
    return kExitOk;
}

} // namespace sluice::tools
