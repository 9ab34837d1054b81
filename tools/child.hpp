// SPDX-License-Identifier: BSD-3-Clause
//
// Commands that the command starts.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/executable.hpp"

namespace sluice::tools {

// As shells say it; what can't be executed is kExitNotExecutable.
inline constexpr int kNotFound = 127;
inline constexpr int kBySignal = 128;

// Those that end a program, and the one about children: blocked here, and as they were in children.
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

// For exec; good as long as TEXTS are.
std::vector<char*> pointers_to(std::vector<std::string>& texts);
// Ours, with ADDED in place of variables of the same names.
std::vector<std::string> environment_with(std::vector<std::string> added);
void tell_why_not(const std::string& command, int error);
// Tells, in one line, what keeps a preloaded library out of COMMAND. Throws that as a Failure where nothing
// can come of the command.
void look_first(const std::string& command, const Preloaded& preloaded);

// PATH, if VARIABLE, which the loader reads, can name it; otherwise a Failure.
std::string part_for_loader(const std::string& path, const char* variable);
// A variable that preloads LIBRARY, behind what is preloaded already: a sanitizer's runtime wants to be the
// first.
std::string preload_with(const std::string& library);
// The same, in front of what is preloaded already. Only the runtimes of sanitizers stay before it.
std::string preload_in_front(const std::string& library);
// A variable with which programs that gcc built with AddressSanitizer run although a library is loaded before
// the runtime that they are linked to. That library must leave the heap to it.
std::string before_sanitizer();

struct Streams {
    int out = 1;
    int err = 2;
};
// -1 with errno, and a line that says why, when it can't be started.
pid_t start(std::vector<std::string> command, std::vector<std::string> environment,
            const BlockedSignals& signals, const Streams& streams = {});
// What a shell would say of a wait status.
int exit_status(int status) noexcept;
// Whatever the commands left behind has become our child, if we are the subreaper.
void end_what_was_left();

} // namespace sluice::tools
