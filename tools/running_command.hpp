// SPDX-License-Identifier: BSD-3-Clause
//
// A command that was started, while it is waited for: signals that come meanwhile are handed on to it.
//
// One thread: whatever else waits in the meantime waits here, so that no signal is late.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "tools/child.hpp"

namespace sluice::tools {

// Which children are waited for. A subreaper has others than it has started.
enum class Reaps { kCommand, kAll };

class RunningCommand {
  public:
    RunningCommand(const BlockedSignals& signals, Reaps reaps);
    ~RunningCommand();
    RunningCommand(const RunningCommand&) = delete;
    RunningCommand& operator=(const RunningCommand&) = delete;

    // 0, or the status of a shell that can't start it; then a line has said why.
    int start(std::vector<std::string> command, std::vector<std::string> environment,
              const Streams& streams = {});
    void wait_for_end();
    // Until the command ends, at most.
    void wait(std::chrono::milliseconds limit);
    // Whether DESCRIPTOR can be read, or has no other end any more. The command may end meanwhile.
    bool wait_until_readable(int descriptor, std::chrono::milliseconds limit);

    // The same, until the command ends, at most.
    bool wait_for_end_or(int descriptor, std::chrono::milliseconds limit);

    bool has_ended() const noexcept { return has_ended_; }
    // The signal that came to end it; 0: none did.
    int told_to_end_by() const noexcept { return told_to_end_by_; }
    // As waitpid() gave it, when it has ended.
    int wait_status() const noexcept { return wait_status_; }

  private:
    bool look(int descriptor, int timeout_ms);
    void take_signal();
    void reap();

    const BlockedSignals& signals_;
    const Reaps reaps_;
    const int signals_fd_;
    sigset_t before_{}; // signals that came before the command was started
    pid_t child_ = -1;
    bool has_ended_ = false;
    int told_to_end_by_ = 0;
    int wait_status_ = 0;
};

} // namespace sluice::tools
