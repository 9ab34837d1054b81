// SPDX-License-Identifier: BSD-3-Clause
#include "tools/running_command.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tools/output.hpp"

namespace sluice::tools {

namespace {

using MonotonicClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// For poll(), which would otherwise be asked again and again within the last millisecond.
int left_until(MonotonicClock::time_point end) {
    const auto left = std::chrono::ceil<milliseconds>(end - MonotonicClock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
}

} // namespace

RunningCommand::RunningCommand(const BlockedSignals& signals, Reaps reaps)
    : signals_(signals), reaps_(reaps), signals_fd_(signalfd(-1, &signals.blocked(), SFD_CLOEXEC)) {
    if (signals_fd_ < 0) {
        throw Failure(kExitFailure, "no descriptor for signals; raise `ulimit -n`");
    }
}

RunningCommand::~RunningCommand() {
    close(signals_fd_);
}

int RunningCommand::start(std::vector<std::string> command, std::vector<std::string> environment,
                          const Streams& streams) {
    sigpending(&before_);
    child_ = tools::start(std::move(command), std::move(environment), signals_, streams);
    if (child_ < 0) {
        return errno == ENOENT ? kNotFound : kExitNotExecutable;
    }
    return 0;
}

void RunningCommand::wait_for_end() {
    while (!has_ended_) {
        (void)look(-1, -1);
    }
}

void RunningCommand::wait(milliseconds limit) {
    const MonotonicClock::time_point end = MonotonicClock::now() + limit;
    while (!has_ended_ && MonotonicClock::now() < end) {
        (void)look(-1, left_until(end));
    }
}

bool RunningCommand::wait_until_readable(int descriptor, milliseconds limit) {
    const MonotonicClock::time_point end = MonotonicClock::now() + limit;
    do {
        if (look(descriptor, left_until(end))) {
            return true;
        }
    } while (MonotonicClock::now() < end);
    return false;
}

bool RunningCommand::wait_for_end_or(int descriptor, milliseconds limit) {
    const MonotonicClock::time_point end = MonotonicClock::now() + limit;
    bool is_readable = false;
    while (!is_readable && !has_ended_ && MonotonicClock::now() < end) {
        is_readable = look(descriptor, left_until(end));
    }
    return is_readable;
}

// Whether DESCRIPTOR, if there is one, can be read.
bool RunningCommand::look(int descriptor, int timeout_ms) {
    pollfd wanted[2] = {{.fd = signals_fd_, .events = POLLIN, .revents = 0},
                        {.fd = descriptor, .events = POLLIN, .revents = 0}};
    if (poll(wanted, 2, timeout_ms) <= 0) {
        return false;
    }
    if (wanted[0].revents != 0) {
        take_signal();
    }
    return wanted[1].revents != 0;
}

void RunningCommand::take_signal() {
    signalfd_siginfo received{};
    if (read(signals_fd_, &received, sizeof received) != sizeof received) {
        return;
    }
    const auto number = static_cast<int>(received.ssi_signo);
    if (number == SIGCHLD) {
        reap();
        return;
    }
    told_to_end_by_ = number;
    // What a terminal sends, it sends to the command, too, once that is there.
    const bool has_it = received.ssi_code == SI_KERNEL && sigismember(&before_, number) == 0;
    if (!has_it && !has_ended_) {
        kill(child_, number);
    }
    sigdelset(&before_, number);
}

void RunningCommand::reap() {
    int status = 0;
    for (pid_t ended = 0;
         !has_ended_ && (ended = waitpid(reaps_ == Reaps::kAll ? -1 : child_, &status, WNOHANG)) > 0;) {
        if (ended == child_) {
            has_ended_ = true;
            wait_status_ = status;
        }
    }
}

} // namespace sluice::tools
