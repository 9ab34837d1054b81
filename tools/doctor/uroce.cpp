// SPDX-License-Identifier: BSD-3-Clause
//
// uroce's devices: whether each can be opened, by a look at its address first, and then by a program that
// opens it as those under `sluice run` do.

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tools/child.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/trial.hpp"
#include "tools/library.hpp"
#include "tools/loader_environment.hpp"
#include "tools/parts.hpp"

namespace sluice::tools::doctor {

namespace {

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1";
}

// No interface that is up has the address.
Remedy remedy_for_missing_address(const sluice_uroce_device& device) {
    const std::string address = device.address;
    if (!is_loopback(address)) {
        return remedy_for_setting(device.origin, "");
    }
    if (address.starts_with("127.") && address != "127.0.0.1") {
        return as_root("ip link set lo up && ip address add " + address + "/8 dev lo");
    }
    return as_root("ip link set lo up && ip address replace " + address + (address == "::1" ? "/128" : "/8") +
                   " dev lo");
}

// The number behind "process " in what the library says about a port's holder.
std::string process_in(const std::string& holder) {
    constexpr std::string_view kWord = "process ";
    const std::size_t begin = holder.find(kWord);
    if (begin == std::string::npos) {
        return {};
    }
    const std::string rest = holder.substr(begin + kWord.size());
    return rest.substr(0, rest.find_first_not_of("0123456789"));
}

Remedy remedy_for_holder(const std::string& holder) {
    const std::string process = process_in(holder);
    if (process.empty()) {
        return {"", "the holder, by ending its program"};
    }
    const bool may = kill(static_cast<pid_t>(std::strtol(process.c_str(), nullptr, 10)), 0) == 0;
    return {"kill " + process, may ? "" : "root"};
}

std::string named(const sluice_uroce_device& device) {
    return std::string(device.name) + " (" + device.address + ")";
}

// Whether nothing that can be seen from outside keeps DEVICE from being opened.
bool can_be_opened(const sluice_uroce_device& device, Report& report) {
    if (device.interface[0] == '\0') {
        report.problem(named(device) + ": no interface that is up has this address (said by " +
                           device.origin + ")",
                       remedy_for_missing_address(device));
        return false;
    }
    if (device.path_mtu == 0) {
        report.problem(named(device) + ": the MTU of " + device.interface + " is too small for RoCEv2",
                       as_root("ip link set " + shell_word(device.interface) + " mtu 1500"));
        return false;
    }
    if (device.used_by[0] != '\0') {
        report.problem(named(device) + ": its UDP port 4791 is in use by " + device.used_by,
                       remedy_for_holder(device.used_by));
        return false;
    }
    return true;
}

// The lines that the library wrote into TEXT, without what stands before their reason.
std::vector<std::string> said_by_library(const std::string& text) {
    std::vector<std::string> said;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        for (const char* lead : {"sluice: error: ", "sluice: warning: "}) {
            if (line.starts_with(lead)) {
                line.erase(0, std::strlen(lead));
                if (std::ranges::find(said, line) == said.end()) {
                    said.push_back(line);
                }
            }
        }
    }
    return said;
}

std::string without(const std::string& text, std::string_view lead) {
    return text.starts_with(lead) ? text.substr(lead.size()) : text;
}

Remedy remedy_for_opening(const std::string& reason) {
    if (reason.find("ulimit -n") != std::string::npos) {
        return {"ulimit -S -n 1024", ""};
    }
    if (reason.find(std::strerror(EADDRNOTAVAIL)) != std::string::npos) {
        return {"", "waiting: a new IPv6 address is looked for elsewhere for a second or two"};
    }
    const Remedy remedy = remedy_for_setting(reason, "");
    return remedy.command.empty() ? Remedy{"", "the reader of what SLUICE_LOG=debug says"} : remedy;
}

// The line of the helper's output about DEVICE, behind its name; empty: it isn't listed.
std::string told_about(const std::string& device, const std::string& output) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(device + "\t")) {
            return line.substr(device.size() + 1);
        }
    }
    return {};
}

std::string describe_opened(const sluice_uroce_device& device) {
    return named(device) + " opens; RDMA MTU " + std::to_string(device.path_mtu) +
           ". Its GID index 0 is RoCEv2: programs without rdma_cm want -g 0";
}

// TOLD is what the helper said of DEVICE, as for told_about().
void report_unopened(const sluice_uroce_device& device, const std::string& told, Report& report) {
    const auto error = told.empty() ? 0 : static_cast<int>(std::strtol(told.c_str() + 1, nullptr, 10));
    const std::string why =
        told.empty() ? " isn't shown to programs" : std::string(" can't be opened: ") + std::strerror(error);
    report.problem(named(device) + why, {"", "the reader of what SLUICE_LOG=debug says"});
}

void check_opened(const std::vector<sluice_uroce_device>& devices, const Trial& trial, Report& report) {
    const std::vector<std::string> said = said_by_library(trial.err);
    bool all_open = true;
    for (const sluice_uroce_device& device : devices) {
        const std::string told = told_about(device.name, trial.out);
        const bool opens = !told.empty() && told[0] != '!';
        all_open = all_open && opens;
        if (opens) {
            report.ok(describe_opened(device));
        } else if (said.empty()) {
            report_unopened(device, told, report);
        }
    }
    for (const std::string& each : said) {
        const std::string reason = without(without(each, "uroce: "), "sluice_open_uroce: ");
        if (all_open) {
            report.warn(reason, remedy_for_opening(reason));
        } else {
            report.problem(reason, remedy_for_opening(reason));
        }
    }
}

void try_to_open(const std::vector<sluice_uroce_device>& devices, Report& report) {
    const Trial trial = try_command({find_part(kProviderProbe)}, loader_environment(), Echo::kNone);
    if (trial.status == kBySignal + SIGXFSZ) {
        report.problem("a program that opens a device ends by SIGXFSZ: it may not write files of this size",
                       {"ulimit -S -f unlimited", ""});
        return;
    }
    if (trial.status != 0) {
        report.problem("a program that opens the devices ends with status " + std::to_string(trial.status) +
                           ": " + trial.err,
                       {"", "whoever installed the command; its parts don't fit together"});
        return;
    }
    check_opened(devices, trial, report);
}

} // namespace

void check_uroce(const Options& options, Report& report) {
    const KeptWarnings warnings;
    const std::vector<sluice_uroce_device> devices = uroce_devices(options);
    for (const std::string& warning : warnings.texts()) {
        report.problem(without(warning, "uroce: "), remedy_for_setting(warning, options.root));
    }
    std::vector<sluice_uroce_device> openable;
    for (const sluice_uroce_device& device : devices) {
        if (device.is_hidden != 0 && device.interface[0] != '\0') {
            report.ok(named(device) + " gives way to the kernel's rdma_rxe, which has its UDP port");
        } else if (can_be_opened(device, report)) {
            openable.push_back(device);
        }
    }
    if (!openable.empty()) {
        try_to_open(openable, report);
    }
}

} // namespace sluice::tools::doctor
