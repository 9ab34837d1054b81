// SPDX-License-Identifier: BSD-3-Clause
//
// The number of lines in an answer isn't known before, as functions may be inlined. So each question is
// followed by one about an address that no file has: what is printed about that one ends the answer.
#include "tools/check/addr2line.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

namespace sluice::tools::check {

namespace {

using AnswerClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeToAnswer{10}; // the first answer takes the reading of the file
constexpr std::size_t kLongestAnswer = 1 << 20;
constexpr std::string_view kNowhere = "0xffffffffffffffff\n";
constexpr std::string_view kNothing = "??\n";

// Where the answer about kNowhere begins; it is complete if it has three lines.
std::size_t end_of_answer(const std::string& text) {
    const std::size_t at = text.find(kNowhere);
    if (at == std::string::npos) {
        return at;
    }
    const std::string_view rest = std::string_view(text).substr(at + kNowhere.size());
    return rest.starts_with(kNothing) && rest.find('\n', kNothing.size()) != std::string_view::npos
               ? at
               : std::string::npos;
}

} // namespace

Addr2Line::~Addr2Line() {
    if (socket_ >= 0) {
        close(socket_);
    }
    if (child_ > 0) {
        kill(child_, SIGKILL);
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

int Addr2Line::start(const std::string& module) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return errno;
    }
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<std::string> command = {"addr2line", "-afiCe", module};
    // In the form that is read here, without what is preloaded into the command, and nothing from the
    // network.
    std::vector<std::string> environment = environment_with({"LC_ALL=C", "LD_PRELOAD=", "DEBUGINFOD_URLS="});
    const int error = posix_spawnp(&child_, command.front().c_str(), &actions, nullptr,
                                   pointers_to(command).data(), pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        child_ = -1;
    }
    return error;
}

bool Addr2Line::ask(std::uint64_t address, RunningCommand& meanwhile, std::string& answer) {
    std::array<char, 24> number{};
    (void)std::snprintf(number.data(), number.size(), "0x%llx\n", static_cast<unsigned long long>(address));
    const std::string question = number.data() + std::string(kNowhere);
    // It is shorter than what a socket takes at once.
    if (send(socket_, question.data(), question.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(question.size())) {
        return false;
    }
    const AnswerClock::time_point end = AnswerClock::now() + kTimeToAnswer;
    std::string text;
    while (end_of_answer(text) == std::string::npos) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - AnswerClock::now());
        was_silent_ = left.count() <= 0 || !meanwhile.wait_until_readable(socket_, left);
        std::array<char, 4096> bytes{};
        const ssize_t got = was_silent_ ? -1 : recv(socket_, bytes.data(), bytes.size(), 0);
        if (got <= 0 || text.size() > kLongestAnswer) {
            return false;
        }
        text.append(bytes.data(), static_cast<std::size_t>(got));
    }
    answer = text.substr(0, end_of_answer(text));
    return true;
}

} // namespace sluice::tools::check
