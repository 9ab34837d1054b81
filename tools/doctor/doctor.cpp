// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice doctor`: what keeps RDMA from working here, and the command that cures it.
#include <array>
#include <vector>

#include "tools/commands.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/print.hpp"
#include "tools/progress.hpp"

namespace sluice::tools::doctor {

namespace {

struct Check {
    const char* subject;
    void (*run)(const Options& options, Report& report);
    bool needs_this_machine; // a recorded one can't be asked
};

constexpr std::array kChecks{
    Check{"settings", check_settings, false}, Check{"limits", check_limits, true},
    Check{"network", check_network, true},    Check{"loader", check_loader, true},
    Check{"uroce", check_uroce, true},        Check{"same-host", check_same_host, false},
    Check{"kernel", check_kernel, false},     Check{"providers", check_providers, true},
    Check{"dat", check_adapters, false},      Check{"coherence", check_coherence, false},
    Check{"clock", check_clock, false},
};

// A check that can't look says so, and the others go on.
void run_check(const Check& check, const Options& options, Report& report) {
    report.begin(check.subject);
    try {
        check.run(options, report);
    } catch (const Failure& failure) {
        report.problem(failure.what(), remedy_for_setting(failure.what(), options.root));
    }
}

void run_checks(const Options& options, Report& report) {
    std::vector<Check> checks(kChecks.begin(), kChecks.end());
    std::erase_if(checks,
                  [&](const Check& check) { return !options.root.empty() && check.needs_this_machine; });
    Progress progress("doctor", checks.size());
    for (std::size_t i = 0; i < checks.size(); ++i) {
        progress.reach(i + 1, checks[i].subject);
        run_check(checks[i], options, report);
    }
}

} // namespace

} // namespace sluice::tools::doctor

sluice::tools::ExitStatus sluice::tools::run_doctor(const Options& options,
                                                    const std::vector<std::string>& command) {
    if (!command.empty() && !options.root.empty()) {
        throw Failure(kExitUsage,
                      "doctor: --root has no meaning for a command, which would run on this machine");
    }
    doctor::Report report;
    doctor::run_checks(options, report);
    if (!command.empty()) {
        report.begin("program");
        doctor::check_program(command, report);
    }
    if (options.json) {
        doctor::print_json(report);
    } else {
        doctor::print_text(options, report);
    }
    return report.count(doctor::Verdict::kProblem) == 0 ? kExitOk : kExitFailure;
}
