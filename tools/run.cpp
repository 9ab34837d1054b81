// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice run`: a command with an RDMA device of its own, which goes when the command ends.
//
// A uroce device is in the command itself, through a preloaded library, so that the command takes our place.
//
// For an rxe device we stay. Signals are blocked from before the device is made until after it has gone, so
// that none can leave it behind: they wait, and are handed on to the command.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>

#include "tools/child.hpp"
#include "tools/commands.hpp"
#include "tools/library.hpp"
#include "tools/loader_environment.hpp"
#include "tools/probe.hpp"
#include "tools/ranks.hpp"
#include "tools/running_command.hpp"
#include "tools/rxe_device.hpp"

namespace sluice::tools {

namespace {

constexpr const char* kWithoutPrivileges =
    "\nWithout a kernel module and privileges there is uroce: sluice run --device uroce -- COMMAND";

int run_command(const std::vector<std::string>& command, std::vector<std::string> environment,
                const BlockedSignals& signals) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    RunningCommand running(signals, Reaps::kAll);
    if (const int failed = running.start(command, environment_with(std::move(environment))); failed != 0) {
        return failed;
    }
    running.wait_for_end();
    end_what_was_left(); // a process that keeps the device open would keep it from going
    return exit_status(running.wait_status());
}

// Our provider, unless somebody has chosen; naming one that is not installed would only make
// libibverbs warn.
void choose_provider(std::vector<std::string>& environment) {
    if (std::getenv("RDMAV_DRIVERS") == nullptr && std::getenv("IBV_DRIVERS") == nullptr &&
        plugin_is_installed("")) {
        environment.emplace_back("RDMAV_DRIVERS=sluice");
    }
}

int run_with_rxe(const std::vector<std::string>& command) {
    const BlockedSignals signals;
    try {
        const RxeDevice device;
        std::vector<std::string> environment = device.environment();
        choose_provider(environment);
        return run_command(command, std::move(environment), signals);
    } catch (const Failure& failure) {
        throw Failure(failure.status(),
                      failure.what() +
                          std::string(failure.status() == kExitNoDevice ? kWithoutPrivileges : ""));
    }
}

// Programs that find no device say little, and never why. It may yet come: COMMAND may set it up.
void tell_where_none_is_shown(const Options& options, bool local) {
    std::string problem;
    try {
        const KeptWarnings warnings; // the command's own library says them again
        const std::vector<sluice_uroce_device> devices = uroce_devices(options);
        if (std::ranges::any_of(devices, [](const auto& device) { return device.is_hidden == 0; })) {
            return;
        }
        problem =
            !local && std::getenv("SLUICE_UROCE") != nullptr
                ? "none that SLUICE_UROCE names can be used; `unset SLUICE_UROCE`, or `sluice devices`"
                : "no network interface is up and has an address; `ip link set lo up`, or `sluice devices`";
    } catch (const Failure& failure) {
        problem = failure.what();
    }
    std::cerr << "sluice: run: there is no uroce device to show: " << problem << '\n';
}

HeapIs heap_of(const RunOptions& how) {
    return how.shared_heap ? HeapIs::kShared : HeapIs::kPrivate;
}

int run_with_uroce(const Options& options, const RunOptions& how, std::vector<std::string> command) {
    look_first(command.front(), kShowsUroce);
    if (how.local) {
        setenv("SLUICE_UROCE", "lo", 1);
    }
    tell_where_none_is_shown(options, how.local);
    std::vector<std::string> environment = environment_with(loader_environment(heap_of(how)));
    execvpe(command.front().c_str(), pointers_to(command).data(), pointers_to(environment).data());
    const int error = errno;
    tell_why_not(command.front(), error);
    return error == ENOENT ? kNotFound : kExitNotExecutable;
}

} // namespace

int run_run(const Options& options, const RunOptions& how, const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage, "run: --json and --root have no meaning here");
    }
    const unsigned ranks = how.pair ? 2 : how.ranks;
    if (ranks == 0 && how.timeout_seconds != 0) {
        throw Failure(kExitUsage,
                      "run: --timeout belongs to --pair and --ranks; timeout(1) is for one command");
    }
    if (how.local && how.device == "rxe") {
        throw Failure(kExitUsage, "run: --local is for uroce; leave out --device rxe");
    }
    if (how.shared_heap && how.device == "rxe") {
        throw Failure(kExitUsage, "run: --shared-heap is for uroce; leave out --device rxe");
    }
    if (ranks != 0 && how.device == "rxe") {
        throw Failure(kExitUsage, "run: --pair and --ranks are for uroce; leave out --device rxe");
    }
    if (ranks != 0) {
        return run_ranks({.ranks = ranks,
                          .timeout_seconds = how.timeout_seconds,
                          .environment = loader_environment(heap_of(how))},
                         command);
    }
    return how.device == "uroce" || how.local || how.shared_heap ? run_with_uroce(options, how, command)
                                                                 : run_with_rxe(command);
}

} // namespace sluice::tools
