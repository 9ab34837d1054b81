// SPDX-License-Identifier: BSD-3-Clause
//
// What our plugin costs programs that use another provider: bench_provider_start [--json FILE]
//
// A program that lists the RDMA devices and ends is run without the plugin and with it loaded, in
// turn. Loaded under its provider's name and asked by nobody, the plugin measures libibverbs,
// registers, and leaves every device to others. Needs no device.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/failure.hpp"
#include "tests/bench/harness.hpp"
#include "tests/bench/own_build.hpp"

namespace {

using sluice::bench::die;

double resident_kib() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.rfind("VmRSS:", 0) == 0) {
            return std::strtod(line.c_str() + 6, nullptr);
        }
    }
    return 0;
}

// The child: what any verbs program begins with.
int list_devices() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list != nullptr) {
        ibv_free_device_list(list);
    }
    const double kib = resident_kib();
    return write(STDOUT_FILENO, &kib, sizeof kib) == sizeof kib ? 0 : 1;
}

struct Start {
    double ms = 0;
    double kib = 0;
};

Start start(const std::string& program, char* const* environment) {
    std::array<int, 2> from{};
    posix_spawn_file_actions_t actions;
    if (pipe2(from.data(), O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO) != 0) {
        die("prepare a process");
    }
    std::string name = program;
    std::string list = "--list";
    const std::array<char*, 3> arguments = {name.data(), list.data(), nullptr};
    Start result;
    pid_t pid = -1;
    int status = 0;
    const std::uint64_t begin = sluice::bench::ticks();
    if (posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environment) != 0 ||
        waitpid(pid, &status, 0) != pid) {
        die("run a process");
    }
    result.ms = static_cast<double>(sluice::bench::ticks() - begin) * sluice::bench::ns_per_tick() / 1e6;
    if (status != 0 || read(from[0], &result.kib, sizeof result.kib) != sizeof result.kib) {
        die("list the devices");
    }
    posix_spawn_file_actions_destroy(&actions);
    close(from[0]);
    close(from[1]);
    return result;
}

void add(sluice::bench::Report& report, const char* name, const char* unit,
         const std::array<std::vector<double>, 3>& samples) {
    std::array<double, 3> medians{};
    std::ranges::transform(samples, medians.begin(), sluice::bench::median);
    const double theirs = (medians[0] + medians[2]) / 2;
    sluice::bench::Figure figure;
    figure.name = name;
    figure.value = medians[1] - theirs;
    figure.unit = unit;
    figure.kind = sluice::bench::Goal::kAtMost;
    figure.goal = 1.0;
    figure.ours = medians[1];
    figure.theirs = theirs;
    figure.compared_unit = unit;
    report.add(std::move(figure));
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        return list_devices();
    }
    sluice::bench::Report report("provider: what it adds to the start of a program that doesn't use it", argc,
                                 argv);
    const std::string self = sluice::bench::own_path();
    std::string preload = "LD_PRELOAD=" + sluice::bench::in_build("provider/libibverbs/libsluice-rdmav34.so");
    const std::array<char*, 1> without = {nullptr};
    const std::array<char*, 2> with = {preload.data(), nullptr};
    const std::array<char* const*, 3> environments = {without.data(), with.data(), without.data()};
    std::array<std::vector<double>, 3> ms;
    std::array<std::vector<double>, 3> mib;
    for (int round = 0; round < report.rounds(300); ++round) {
        for (std::size_t turn = 0; turn < environments.size(); ++turn) {
            const std::size_t who = (turn + static_cast<std::size_t>(round)) % environments.size();
            const Start measured = start(self, environments[who]);
            ms[who].push_back(measured.ms);
            mib[who].push_back(measured.kib / 1024);
        }
    }
    add(report, "time added to listing devices", "ms", ms);
    add(report, "memory added to listing devices", "MiB", mib);
    return report.finish();
}
