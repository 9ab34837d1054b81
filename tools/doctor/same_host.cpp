// SPDX-License-Identifier: BSD-3-Clause
//
// How uroce reaches other processes of this user on this host: by their memory, if settings and kernel allow
// it.
#include <unistd.h>

#include <fstream>

#include "tools/doctor/checks.hpp"
#include "tools/reach.hpp"

namespace sluice::tools::doctor {

namespace {

constexpr int kForRootOnly = 2; // of Yama's scopes: the first that leaves attaching to root
constexpr int kForNobody = 3;   // it can't be lowered any more

int yama_scope(const std::string& file) {
    std::ifstream text(file);
    int scope = 0;
    return text >> scope ? scope : 0;
}

void check_yama(const std::string& file, Report& report) {
    const int scope = yama_scope(file);
    const std::string fact = "kernel.yama.ptrace_scope is " + std::to_string(scope);
    if (scope < kForRootOnly) {
        report.ok(fact + ": processes of one user may reach each other's memory");
        return;
    }
    const std::string cost = ": Writes and Reads between processes of this host go as packets";
    if (scope >= kForNobody) {
        report.warn(fact + cost, {"", "root, by booting with a lower one in /etc/sysctl.d"});
        return;
    }
    report.warn(fact + cost, {"echo 1 >" + shell_word(file), access(file.c_str(), W_OK) == 0 ? "" : "root"});
}

} // namespace

void check_same_host(const Options& options, Report& report) {
    const std::string yama = options.root + "/proc/sys/kernel/yama/ptrace_scope";
    if (!options.root.empty() || yama_scope(yama) >= kForRootOnly) {
        check_yama(yama, report);
        return;
    }
    const Reach reach = find_reach();
    if (reach.is_direct && reach.has_rings) {
        report.ok("processes of this user reach each other by memory");
        return;
    }
    const std::string fact = "processes of this user reach each other by packets through " +
                             std::string(reach.has_rings ? "rings" : "UDP") + ": " + reach.reason;
    const bool is_setting = reach.reason.starts_with("SLUICE_");
    report.warn(fact, is_setting ? remedy_for_setting(reach.reason, "")
                                 : Remedy{"", "the one who starts this container or service, by a seccomp "
                                              "profile that allows process_vm_readv and process_vm_writev"});
}

} // namespace sluice::tools::doctor
