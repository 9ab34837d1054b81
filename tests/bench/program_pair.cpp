// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/program_pair.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "tests/bench/failure.hpp"
#include "tests/bench/own_build.hpp"

namespace sluice::bench {

namespace {

constexpr int kPatienceMs = 60'000;
constexpr int kBetweenLooksMs = 5;

// A child of this process, which ends with it.
class Program {
  public:
    Program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            const std::filesystem::path& output)
        : pid_(fork()) {
        if (pid_ == 0) {
            execute(command, environment, output);
        }
        descriptor_ = pid_ > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid_, 0U)) : -1;
        if (descriptor_ < 0) {
            die(command[0].c_str());
        }
    }
    ~Program() {
        if (!has_ended_) {
            (void)kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        close(descriptor_);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    int descriptor() const { return descriptor_; }
    // Whether it has ended with 0, before it was too late.
    bool succeeds() {
        pollfd end{.fd = descriptor_, .events = POLLIN, .revents = 0};
        int status = -1;
        has_ended_ = poll(&end, 1, kPatienceMs) == 1 && waitpid(pid_, &status, 0) == pid_;
        return has_ended_ && status == 0;
    }

  private:
    [[noreturn]] static void execute(const std::vector<std::string>& command,
                                     const std::vector<std::string>& environment,
                                     const std::filesystem::path& output) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const int err = open((output.string() + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        for (const std::string& variable : environment) {
            const std::size_t equals = variable.find('=');
            setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
        }
        std::vector<char*> words;
        for (const std::string& word : command) {
            words.push_back(const_cast<char*>(word.c_str()));
        }
        words.push_back(nullptr);
        execvp(words[0], words.data());
        std::perror(words[0]);
        _exit(127);
    }

    pid_t pid_;
    int descriptor_ = -1;
    bool has_ended_ = false;
};

// Whether a socket of this table in /proc listens at PORT: a colon and four hexadecimal digits.
bool is_listening(const char* table, std::string_view port) {
    std::ifstream in(table);
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string number;
        std::string local;
        std::string remote;
        std::string state;
        words >> number >> local >> remote >> state;
        if (state == "0A" && local.ends_with(port)) {
            return true;
        }
    }
    return false;
}

std::string as_in_proc(const std::string& port) {
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), ":%04lX", std::strtoul(port.c_str(), nullptr, 10));
    return digits.data();
}

std::filesystem::path new_directory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = access(memory.c_str(), W_OK) == 0;
    std::string name = (has_memory ? memory : std::filesystem::temp_directory_path()) / "bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
        die(name.c_str());
    }
    return name;
}

std::string text_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

// The counter in PATH of `sluice stat --json` that counts this way's requests, each of which is a packet at
// least.
std::uint64_t counted(const nlohmann::json& path, Way way) {
    switch (way) {
    case Way::kDirect:
        return path.at("direct").at("requests");
    case Way::kRing:
        return path.at("memory").at("packets_sent");
    case Way::kUdp:
        return path.at("udp").at("packets_sent");
    case Way::kOther:
        return 0;
    }
    return 0;
}

} // namespace

std::string sluice_command() {
    return in_build("tools/sluice");
}

PairRunner::PairRunner(std::string sluice, std::string address, std::string port)
    : sluice_(std::move(sluice)), address_(std::move(address)), port_(std::move(port)),
      directory_(new_directory()) {}

PairRunner::~PairRunner() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

std::string PairRunner::run(const Pair& pair) const {
    const std::filesystem::path counters = directory_ / "counters";
    std::filesystem::remove_all(counters);
    std::filesystem::create_directory(counters);
    Program server(command(pair, pair.server), environment(pair), directory_ / "server");
    await_listener(server.descriptor());
    Program client(command(pair, pair.client), environment(pair), directory_ / "client");
    if (!client.succeeds()) {
        fail(pair, "the client has failed");
    }
    if (!server.succeeds()) {
        fail(pair, "the server has failed");
    }
    if (pair.way != Way::kOther && requests_by(pair.way) < pair.least) {
        fail(pair, "its requests went another way");
    }
    return text_of(directory_ / "client");
}

std::vector<std::string> PairRunner::command(const Pair& pair,
                                             const std::vector<std::string>& program) const {
    std::vector<std::string> words;
    if (!pair.checker.empty()) {
        words.push_back(sluice_);
        words.insert(words.end(), pair.checker.begin(), pair.checker.end());
        words.emplace_back("--");
    }
    if (pair.way != Way::kOther) {
        for (const char* const word : {sluice_.c_str(), "run", "--device", "uroce"}) {
            words.emplace_back(word);
        }
        if (pair.shares_heap) {
            words.emplace_back("--shared-heap");
        }
        words.emplace_back("--");
    }
    words.insert(words.end(), program.begin(), program.end());
    return words;
}

std::vector<std::string> PairRunner::environment(const Pair& pair) const {
    std::vector<std::string> variables = pair.environment;
    variables.push_back("SLUICE_UROCE=uroce0=" + address_);
    variables.push_back("SLUICE_UROCE_COUNTERS=" + (directory_ / "counters").string());
    variables.push_back("SLUICE_UROCE_NEIGHBOURS=" +
                        std::string(pair.way == Way::kUdp ? "packets" : "memory"));
    return variables;
}

// A server that ends before it listens leaves the client to fail.
void PairRunner::await_listener(int server) const {
    const std::string port = as_in_proc(port_);
    pollfd end{.fd = server, .events = POLLIN, .revents = 0};
    for (int waited = 0; waited < kPatienceMs; waited += kBetweenLooksMs) {
        if (is_listening("/proc/net/tcp", port) || is_listening("/proc/net/tcp6", port) ||
            poll(&end, 1, kBetweenLooksMs) != 0) {
            return;
        }
    }
}

// Of the process that has the most: a server may only answer.
std::uint64_t PairRunner::requests_by(Way way) const {
    const std::filesystem::path out = directory_ / "stat";
    Program stat({sluice_, "stat", "--json"}, environment({}), out);
    std::uint64_t most = 0;
    if (!stat.succeeds()) {
        return most;
    }
    const auto told = nlohmann::json::parse(text_of(out), nullptr, false);
    for (const auto& use : told.is_object() ? told.at("uses") : nlohmann::json::array()) {
        most = std::max(most, counted(use.at("counters").at("path"), way));
    }
    return most;
}

void PairRunner::fail(const Pair& pair, const std::string& what) const {
    std::string text;
    for (const std::string& word : pair.client) {
        text += word + " ";
    }
    std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, text.c_str(), what.c_str());
    for (const char* const name : {"server", "server.err", "client", "client.err"}) {
        std::fprintf(stderr, "--- %s\n%s", name, text_of(directory_ / name).c_str());
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    std::exit(1);
}

} // namespace sluice::bench
