// SPDX-License-Identifier: BSD-3-Clause
//
// Other people's programs as two processes: a server, and a client that finds it at a TCP port of this
// machine.
//
// Programs run over uroce by `sluice run`, and those that shall do so are asked afterwards which way their
// bytes went (`sluice stat`): a program that took another way would measure something else. Whatever fails
// ends the benchmark, with what the two have printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::bench {

// How a program's requests reach the peer: without uroce, or as `sluice stat` has it.
enum class Way { kOther, kDirect, kRing, kUdp };

struct Pair {
    std::vector<std::string> server; // each is a program and its arguments
    std::vector<std::string> client;
    std::vector<std::string> environment{}; // NAME=VALUE, for both
    Way way = Way::kOther;
    std::uint64_t least = 0; // requests or packets that must have gone this way
    // `sluice run --shared-heap`.
    bool shares_heap = false;
    // The command of `sluice` behind which both run, with its options; empty: none.
    std::vector<std::string> checker{};
};

// That of this build.
std::string sluice_command();

class PairRunner {
  public:
    // SLUICE is the command, ADDRESS the device's, and PORT what the servers listen at.
    PairRunner(std::string sluice, std::string address, std::string port);
    ~PairRunner();
    PairRunner(const PairRunner&) = delete;
    PairRunner& operator=(const PairRunner&) = delete;

    const std::string& port() const { return port_; }
    // For files that the programs share, in memory where the system has such a place.
    const std::filesystem::path& directory() const { return directory_; }
    // What the client has printed on standard output.
    std::string run(const Pair& pair) const;

  private:
    std::vector<std::string> command(const Pair& pair, const std::vector<std::string>& program) const;
    std::vector<std::string> environment(const Pair& pair) const;
    void await_listener(int server) const;
    std::uint64_t requests_by(Way way) const;
    [[noreturn]] void fail(const Pair& pair, const std::string& what) const;

    std::string sluice_;
    std::string address_;
    std::string port_;
    std::filesystem::path directory_;
};

} // namespace sluice::bench
