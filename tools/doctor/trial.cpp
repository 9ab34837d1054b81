// SPDX-License-Identifier: BSD-3-Clause
#include "tools/doctor/trial.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tools/child.hpp"
#include "tools/plain_file.hpp"

namespace sluice::tools::doctor {

namespace {

constexpr std::size_t kKeptBytes = std::size_t{64} * 1024;

class Pipe {
  public:
    Pipe() {
        if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
            throw system_failure("pipe");
        }
    }
    ~Pipe() {
        close(ends_[0]);
        close_writer();
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    int reader() const noexcept { return ends_[0]; }
    int writer() const noexcept { return ends_[1]; }
    void close_writer() noexcept {
        if (ends_[1] >= 0) {
            close(ends_[1]);
            ends_[1] = -1;
        }
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

void echo_bytes(const char* bytes, std::size_t count) {
    while (count > 0) {
        const ssize_t written = write(STDERR_FILENO, bytes, count);
        if (written <= 0) {
            return;
        }
        bytes += written;
        count -= static_cast<std::size_t>(written);
    }
}

// False at the end.
bool take_some(int from, std::string& to, Echo echo) {
    std::array<char, 4096> buffer{};
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got <= 0) {
        return got < 0 && errno == EINTR;
    }
    const auto count = static_cast<std::size_t>(got);
    if (echo == Echo::kBoth) {
        echo_bytes(buffer.data(), count);
    }
    to.append(buffer.data(), count);
    if (to.size() > kKeptBytes) {
        to.erase(0, to.size() - kKeptBytes);
    }
    return true;
}

void take_all(const Pipe& out, const Pipe& err, Trial& trial, Echo echo) {
    std::array<pollfd, 2> waiting{pollfd{out.reader(), POLLIN, 0}, pollfd{err.reader(), POLLIN, 0}};
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
            throw system_failure("poll");
        }
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].fd >= 0 && waiting[i].revents != 0 &&
                !take_some(waiting[i].fd, i == 0 ? trial.out : trial.err, echo)) {
                waiting[i].fd = -1;
            }
        }
    }
}

} // namespace

Trial try_command(const std::vector<std::string>& command, const std::vector<std::string>& variables,
                  Echo echo) {
    Pipe out;
    Pipe err;
    pid_t child = -1;
    {
        const BlockedSignals signals;
        child = start(command, environment_with(variables), signals, {out.writer(), err.writer()});
    }
    if (child < 0) {
        return {errno == ENOENT ? kNotFound : kExitNotExecutable, "", ""};
    }
    out.close_writer();
    err.close_writer();
    Trial trial;
    take_all(out, err, trial, echo);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    trial.status = exit_status(status);
    return trial;
}

} // namespace sluice::tools::doctor
