// SPDX-License-Identifier: BSD-3-Clause
#include "tools/probe.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tools/output.hpp"

namespace sluice::tools {

namespace {

constexpr const char* kHelper = "provider-probe";

std::string own_directory() {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    const std::string own(path.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    return own.substr(0, own.rfind('/'));
}

// Beside the command in the build tree, in libexec where it is installed.
std::string find_helper() {
    const std::string here = own_directory();
    for (const std::string& path :
         {here + "/" + kHelper, here + "/" + SLUICE_LIBEXEC_FROM_BIN + "/" + kHelper}) {
        if (access(path.c_str(), X_OK) == 0) {
            return path;
        }
    }
    throw Failure(kExitFailure, "its helper 'provider-probe' is missing; install the command again");
}

// Everything that HELPER prints.
std::string output_of(const std::string& helper) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Failure(kExitFailure, std::string("pipe: ") + std::strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::array<char*, 2> arguments{const_cast<char*>(helper.c_str()), nullptr};
    pid_t child = 0;
    const int result = posix_spawn(&child, helper.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output;
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while (result == 0 &&
           ((count = read(ends[0], buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR))) {
        output.append(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    close(ends[0]);
    int status = 0;
    if (result == 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (result != 0 || status != 0) {
        throw Failure(kExitFailure, "the helper " + helper + " failed");
    }
    return output;
}

} // namespace

std::map<std::string, Probed> probe_providers() {
    std::istringstream lines(output_of(find_helper()));
    std::map<std::string, Probed> providers;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t tab = line.find('\t');
        if (tab == std::string::npos) {
            continue;
        }
        const std::string what = line.substr(tab + 1);
        const bool failed = what.starts_with('!');
        providers[line.substr(0, tab)] =
            failed ? Probed{"", static_cast<int>(std::strtol(what.c_str() + 1, nullptr, 10))}
                   : Probed{what, 0};
    }
    return providers;
}

} // namespace sluice::tools
