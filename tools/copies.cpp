// SPDX-License-Identifier: BSD-3-Clause
#include "tools/copies.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "tools/child.hpp"
#include "tools/output.hpp"

namespace sluice::tools {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookAgain{20};
constexpr milliseconds kServersHeadStart{1000};
constexpr seconds kLongestHeadStart{5};
constexpr seconds kTimeToNotice{5};
constexpr seconds kTimeToEnd{2};
constexpr int kTimedOut = 124; // as timeout(1) says it
constexpr std::size_t kLongestLine = 65536;

std::string filled_in(std::string text, const Facts& facts) {
    for (const Fact& fact : facts) {
        if (*fact.name == '\0') {
            continue;
        }
        for (std::size_t at = 0; (at = text.find(fact.name, at)) != std::string::npos;
             at += fact.value.size()) {
            text.replace(at, std::strlen(fact.name), fact.value);
        }
    }
    return text;
}

std::vector<std::vector<std::string>> parts_of(const std::vector<std::string>& command) {
    std::vector<std::vector<std::string>> parts(1);
    for (const std::string& word : command) {
        if (word == ":") {
            parts.emplace_back();
        } else {
            parts.back().push_back(word);
        }
    }
    for (const auto& part : parts) {
        if (part.empty()) {
            throw Failure(kExitUsage, "run: a command is missing beside \":\"");
        }
    }
    return parts;
}

// Passes on what a copy prints.
class Labelled {
  public:
    Labelled(unsigned copy, int to) : label_("[" + std::to_string(copy) + "] "), to_(to) {
        if (pipe2(ends_, O_CLOEXEC) != 0) {
            throw Failure(kExitFailure, "run: no descriptors for a command's output; raise `ulimit -n`");
        }
    }
    ~Labelled() {
        close_end(0);
        close_end(1);
    }
    Labelled(const Labelled&) = delete;
    Labelled& operator=(const Labelled&) = delete;

    int writing_end() const { return ends_[1]; }
    int reading_end() const { return ends_[0]; }
    void started() { close_end(1); }

    // What is there. False: there will be no more.
    bool pass_on() {
        std::array<char, 4096> bytes{};
        const ssize_t got = read(ends_[0], bytes.data(), bytes.size());
        if (got <= 0) {
            finish();
            return false;
        }
        text_.append(bytes.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
            print(text_.substr(0, end + 1));
            text_.erase(0, end + 1);
        }
        if (text_.size() > kLongestLine) {
            print(std::exchange(text_, {}) + '\n');
        }
        return true;
    }
    // What is there, without waiting for processes that still have the other end open.
    void finish() {
        while (reading_end() >= 0 && is_readable() && pass_on()) {
        }
        if (!text_.empty()) {
            print(std::exchange(text_, {}) + '\n');
        }
        close_end(0);
    }

  private:
    bool is_readable() const {
        pollfd wanted{.fd = ends_[0], .events = POLLIN, .revents = 0};
        return poll(&wanted, 1, 0) == 1 && (wanted.revents & POLLIN) != 0;
    }
    void print(const std::string& line) const {
        const std::string whole = label_ + line;
        for (std::size_t done = 0; done < whole.size();) {
            const ssize_t written = write(to_, whole.data() + done, whole.size() - done);
            if (written < 0 && errno != EINTR) {
                return; // whoever read us is gone
            }
            done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
        }
    }
    void close_end(int which) {
        if (ends_[which] >= 0) {
            close(std::exchange(ends_[which], -1));
        }
    }

    const std::string label_;
    const int to_;
    int ends_[2] = {-1, -1};
    std::string text_; // of a line whose end hasn't come
};

struct Copy {
    explicit Copy(unsigned its_number)
        : number(its_number), out(its_number, STDOUT_FILENO), err(its_number, STDERR_FILENO) {}
    unsigned number;
    Labelled out;
    Labelled err;
    pid_t process = -1;
    bool has_ended = false;
    std::string command;
};

void add_with_children(const std::string& process, std::vector<std::string>& processes) {
    processes.push_back(process);
    std::ifstream list("/proc/" + process + "/task/" + process + "/children");
    for (std::string child; list >> child;) {
        add_with_children(child, processes);
    }
}

// As /proc/PID/fd shows those of PROCESS's network that listen.
std::set<std::string> listening_sockets(const std::string& process) {
    constexpr const char* kListens = "0A";
    std::set<std::string> sockets;
    for (const char* table : {"/net/tcp", "/net/tcp6"}) {
        std::ifstream lines("/proc/" + process + table);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
            words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
                inode;
            if (state == kListens) {
                sockets.insert("socket:[" + inode + "]");
            }
        }
    }
    return sockets;
}

bool listens(pid_t root) {
    std::vector<std::string> processes;
    add_with_children(std::to_string(root), processes);
    for (const std::string& process : processes) {
        const std::set<std::string> sockets = listening_sockets(process);
        std::error_code gone;
        for (std::filesystem::directory_iterator at("/proc/" + process + "/fd", gone), end;
             !gone && at != end; at.increment(gone)) {
            std::error_code unreadable;
            if (sockets.contains(std::filesystem::read_symlink(at->path(), unreadable).string())) {
                return true;
            }
        }
    }
    return false;
}

// What ROOT and its children have used of processors, in ticks of the clock.
std::uint64_t ticks_of(pid_t root) {
    constexpr int kBeforeTimes = 11; // words between a program's name and its times
    std::vector<std::string> processes;
    add_with_children(std::to_string(root), processes);
    std::uint64_t sum = 0;
    for (const std::string& process : processes) {
        std::ifstream file("/proc/" + process + "/stat");
        std::string text;
        std::getline(file, text);
        const std::size_t name_ends = text.rfind(')');
        std::istringstream words(name_ends == std::string::npos ? "" : text.substr(name_ends + 1));
        std::string skipped;
        for (int i = 0; i < kBeforeTimes; ++i) {
            words >> skipped;
        }
        std::array<std::uint64_t, 4> times{}; // its own and those of children that ended, user and system
        for (std::uint64_t& time : times) {
            words >> time;
            sum += time;
        }
    }
    return sum;
}

// The time that the first rank has to itself, if nothing shows that it is ready: on a machine that is slow or
// does other things a server may compute for longer before it listens. One that goes on computing is ready
// some time, too.
class HeadStart {
  public:
    bool is_over(pid_t root) {
        const Clock::time_point now = Clock::now();
        const std::uint64_t ticks = ticks_of(root);
        if (ticks > ticks_ + kFewTicks) {
            ticks_ = ticks;
            rests_since_ = now;
        }
        return now - rests_since_ >= kServersHeadStart || now - began_ >= kLongestHeadStart;
    }

  private:
    static constexpr std::uint64_t kFewTicks = 5; // of a hundred in a second

    Clock::time_point began_ = Clock::now();
    Clock::time_point rests_since_ = began_;
    std::uint64_t ticks_ = 0;
};

class Copies {
  public:
    Copies(const CopyOptions& options, const std::vector<std::string>& command)
        : options_(options), parts_(parts_of(command)),
          signals_fd_(signalfd(-1, &signals_.blocked(), SFD_CLOEXEC)) {
        if (options.timeout_seconds != 0) {
            deadline_ = Clock::now() + seconds(options.timeout_seconds);
        }
    }
    ~Copies() { close(signals_fd_); }
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;

    int run() {
        for (const auto& part : parts_) {
            look_first(part.front(), options_.preloaded);
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        start_next();
        if (options_.start == Start::kTogether) {
            start_others();
        }
        HeadStart head_start;
        while (any_runs() || (status_ == 0 && copies_.size() < options_.facts.size())) {
            wait_a_moment();
            collect();
            look_at_time();
            if (copies_.size() < options_.facts.size() && status_ == 0 && may_others_start(head_start)) {
                start_others();
            }
        }
        end_what_was_left();
        for (const auto& copy : copies_) {
            copy->out.finish();
            copy->err.finish();
        }
        return status_;
    }

  private:
    bool may_others_start(HeadStart& head_start) const {
        const Copy& first = *copies_.front();
        return first.has_ended || listens(first.process) || head_start.is_over(first.process);
    }

    void start_others() {
        while (status_ == 0 && copies_.size() < options_.facts.size()) {
            start_next();
        }
    }

    void start_next() {
        const auto number = static_cast<unsigned>(copies_.size());
        copies_.push_back(std::make_unique<Copy>(number));
        Copy& copy = *copies_.back();
        const Facts& facts = options_.facts[number];
        std::vector<std::string> command = parts_[std::min<std::size_t>(number, parts_.size() - 1)];
        std::vector<std::string> variables = options_.environment;
        for (std::string& word : command) {
            word = filled_in(word, facts);
        }
        for (const Fact& fact : facts) {
            variables.push_back(std::string(fact.variable) + "=" + fact.value);
        }
        copy.command = command.front();
        copy.process = start(command, environment_with(std::move(variables)), signals_,
                             {.out = copy.out.writing_end(), .err = copy.err.writing_end()});
        const int error = errno;
        copy.out.started();
        copy.err.started();
        if (copy.process < 0) {
            copy.has_ended = true;
            fail(error == ENOENT ? kNotFound : kExitNotExecutable);
        }
    }

    bool any_runs() const {
        return std::ranges::any_of(copies_, [](const auto& copy) { return !copy->has_ended; });
    }

    // Until there is output, a signal, or something to look at.
    void wait_a_moment() {
        std::vector<pollfd> wanted = {{.fd = signals_fd_, .events = POLLIN, .revents = 0}};
        std::vector<Labelled*> streams;
        for (const auto& copy : copies_) {
            for (Labelled* stream : {&copy->out, &copy->err}) {
                wanted.push_back({.fd = stream->reading_end(), .events = POLLIN, .revents = 0});
                streams.push_back(stream);
            }
        }
        const bool waits = copies_.size() < options_.facts.size() || deadline_ != Clock::time_point::max();
        if (poll(wanted.data(), wanted.size(), waits ? static_cast<int>(kLookAgain.count()) : -1) <= 0) {
            return;
        }
        for (std::size_t i = 0; i < streams.size(); ++i) {
            if (wanted[i + 1].revents != 0) {
                (void)streams[i]->pass_on();
            }
        }
        signalfd_siginfo signal{};
        if (wanted[0].revents != 0 && read(signals_fd_, &signal, sizeof signal) == sizeof signal &&
            signal.ssi_signo != SIGCHLD) {
            fail(kBySignal + static_cast<int>(signal.ssi_signo));
            signal_all(static_cast<int>(signal.ssi_signo));
        }
    }

    void collect() {
        int status = 0;
        for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
            for (const auto& copy : copies_) {
                if (copy->process == ended) {
                    on_end(*copy, exit_status(status));
                }
            }
        }
    }

    void on_end(Copy& copy, int status) {
        copy.has_ended = true;
        if (status == 0) {
            return;
        }
        copy.out.finish();
        copy.err.finish();
        if (!ending_) {
            std::cerr << "sluice: " << options_.called << ' ' << copy.number << " ended with status "
                      << status << ": " << copy.command << '\n';
        }
        fail(status);
    }

    // The first failure is the run's.
    void fail(int status) {
        if (status_ == 0) {
            status_ = status;
            deadline_ = Clock::now() + kTimeToNotice;
        }
    }

    void look_at_time() {
        if (Clock::now() < deadline_) {
            return;
        }
        if (!ending_) {
            for (const auto& copy : copies_) {
                if (!copy->has_ended) {
                    std::cerr << "sluice: " << options_.called << ' ' << copy->number << " still runs"
                              << (status_ == 0 ? " after " + std::to_string(options_.timeout_seconds) + " s"
                                               : std::string())
                              << "; it is ended: " << copy->command << '\n';
                }
            }
        }
        signal_all(ending_ ? SIGKILL : SIGTERM);
        status_ = status_ == 0 ? kTimedOut : status_;
        ending_ = true;
        deadline_ = Clock::now() + kTimeToEnd;
    }

    void signal_all(int number) const {
        for (const auto& copy : copies_) {
            if (!copy->has_ended) {
                kill(copy->process, number);
            }
        }
    }

    const CopyOptions& options_;
    const std::vector<std::vector<std::string>> parts_;
    const BlockedSignals signals_;
    const int signals_fd_;
    std::vector<std::unique_ptr<Copy>> copies_;
    Clock::time_point deadline_ = Clock::time_point::max();
    bool ending_ = false;
    int status_ = 0;
};

} // namespace

int run_copies(const CopyOptions& options, const std::vector<std::string>& command) {
    return Copies(options, command).run();
}

} // namespace sluice::tools
