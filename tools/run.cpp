// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice run`: a command with an RDMA device of its own, which goes when the command ends.
//
// A uroce device is in the command itself, through a preloaded library, so that the command takes our place.
//
// For an rxe device we stay. Signals are blocked from before the device is made until after it has gone, so
// that none can leave it behind: they wait, and are handed on to the command.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include "tools/commands.hpp"
#include "tools/parts.hpp"
#include "tools/probe.hpp"
#include "tools/rxe_device.hpp"

namespace sluice::tools {

namespace {

constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr int kBySignal = 128;

constexpr const char* kWithoutPrivileges =
    "\nWithout a kernel module and privileges there is uroce: sluice run --device uroce -- COMMAND";

class BlockedSignals {
  public:
    BlockedSignals() {
        sigemptyset(&blocked_);
        for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
            sigaddset(&blocked_, signal);
        }
        sigprocmask(SIG_BLOCK, &blocked_, &former_);
    }
    ~BlockedSignals() { sigprocmask(SIG_SETMASK, &former_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

    const sigset_t& blocked() const noexcept { return blocked_; }
    const sigset_t& former() const noexcept { return former_; }

  private:
    sigset_t blocked_{};
    sigset_t former_{};
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

// Ours, with ADDED in place of variables of the same names.
std::vector<std::string> environment_with(std::vector<std::string> added) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string name = std::string(*entry).substr(0, std::string_view(*entry).find('=') + 1);
        const bool replaced = std::any_of(
            added.begin(), added.end(), [&name](const std::string& text) { return text.starts_with(name); });
        if (!replaced) {
            added.emplace_back(*entry);
        }
    }
    return added;
}

void tell_why_not(const std::string& command, int error) {
    std::cerr << "sluice: " << command << ": " << std::strerror(error) << '\n';
}

pid_t start(std::vector<std::string> command, std::vector<std::string> environment,
            const BlockedSignals& signals) {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &signals.former());
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = 0;
    const int error = posix_spawnp(&child, command.front().c_str(), nullptr, &attributes,
                                   pointers_to(command).data(), pointers_to(environment).data());
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        tell_why_not(command.front(), error);
        errno = error;
        return -1;
    }
    return child;
}

// Waits for CHILD, hands signals on to it, and gives its wait status.
int wait_for(pid_t child, const BlockedSignals& signals) {
    for (;;) {
        int status = 0;
        for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
            if (ended == child) {
                return status;
            }
        }
        siginfo_t received{};
        const int number = sigwaitinfo(&signals.blocked(), &received);
        // What a terminal sends, it sends to the command, too.
        if (number > 0 && number != SIGCHLD && received.si_code != SI_KERNEL) {
            kill(child, number);
        }
    }
}

// A process that keeps the device open would keep it from going. What the command left behind has
// become our child, because we are the subreaper.
void end_what_was_left() {
    const std::string children = "/proc/self/task/" + std::to_string(getpid()) + "/children";
    for (;;) {
        std::ifstream list(children);
        bool any = false;
        for (pid_t pid = 0; list >> pid;) {
            kill(pid, SIGKILL);
            any = true;
        }
        if (!any || (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD)) {
            return;
        }
    }
}

int run_command(const std::vector<std::string>& command, std::vector<std::string> environment,
                const BlockedSignals& signals) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t child = start(command, environment_with(std::move(environment)), signals);
    if (child < 0) {
        return errno == ENOENT ? kNotFound : kNotExecutable;
    }
    const int status = wait_for(child, signals);
    end_what_was_left();
    return WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status);
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

// Behind what is preloaded already: a sanitizer's runtime wants to be the first.
std::string preload_with(const std::string& library) {
    if (library.find_first_of(" :") != std::string::npos) {
        throw Failure(kExitFailure, "run: LD_PRELOAD can't name " + library +
                                        ": move the installation to a path without spaces and colons");
    }
    const char* const others = std::getenv("LD_PRELOAD");
    return "LD_PRELOAD=" +
           (others == nullptr || *others == '\0' ? library : std::string(others) + ":" + library);
}

int run_with_uroce(std::vector<std::string> command) {
    std::vector<std::string> environment = environment_with({preload_with(find_part(kPreload))});
    execvpe(command.front().c_str(), pointers_to(command).data(), pointers_to(environment).data());
    const int error = errno;
    tell_why_not(command.front(), error);
    return error == ENOENT ? kNotFound : kNotExecutable;
}

} // namespace

int run_run(const Options& options, const std::string& device, const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage, "run: --json and --root have no meaning here");
    }
    if (device == "rxe") {
        return run_with_rxe(command);
    }
    return run_with_uroce(command);
}

} // namespace sluice::tools
