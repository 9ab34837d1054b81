// SPDX-License-Identifier: BSD-3-Clause
#include "tools/child.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tools/output.hpp"

namespace sluice::tools {

namespace {

bool is_runtime_of_sanitizer(const std::string& library) {
    const std::string name = library.substr(library.rfind('/') + 1);
    return std::ranges::any_of(
        std::array{"libasan.", "libhwasan.", "liblsan.", "libtsan.", "libubsan.", "libclang_rt."},
        [&name](const char* start) { return name.starts_with(start); });
}

// What execvp() means by ERROR.
std::string reason_for(const std::string& command, int error) {
    const bool is_path = command.find('/') != std::string::npos;
    std::error_code none;
    if (error == ENOENT && !is_path) {
        return "no directory of PATH has such a program; for a file that is here: ./" + command;
    }
    if (error == ENOENT && std::filesystem::exists(command, none)) {
        return "the interpreter that it names is not there; look at its first line, or at `file` for a "
               "program";
    }
    if (error == EACCES && is_path && std::filesystem::is_directory(command, none)) {
        return "this is a directory, and no program";
    }
    if (error == EACCES && is_path && std::filesystem::exists(command, none)) {
        return std::string(std::strerror(error)) + "; `chmod +x` makes a file executable";
    }
    return std::strerror(error);
}

} // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::vector<std::string> environment_with(std::vector<std::string> added) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string name = std::string(*entry).substr(0, std::string_view(*entry).find('=') + 1);
        const bool replaced = std::any_of(
            added.begin(), added.end(), [&name](const std::string& text) { return text.starts_with(name); });
        if (!replaced) {
            added.emplace_back(*entry);
        }
    }
    return added;
}

void tell_why_not(const std::string& command, int error) {
    std::cerr << "sluice: " << command << ": " << reason_for(command, error) << '\n';
}

void look_first(const std::string& command, const Preloaded& preloaded) {
    const Obstacle obstacle = obstacle_to_preloading(command, preloaded);
    if (obstacle.is_final) {
        throw Failure(kExitNotExecutable, std::string(preloaded.subcommand) + ": " + obstacle.why);
    }
    if (!obstacle.why.empty()) {
        std::cerr << "sluice: " << preloaded.subcommand << ": " << obstacle.why << '\n';
    }
}

std::string part_for_loader(const std::string& path, const char* variable) {
    if (path.find_first_of(" :") != std::string::npos) {
        throw Failure(kExitFailure, std::string(variable) + " can't name " + path +
                                        ": move the installation to a path without spaces and colons");
    }
    return path;
}

std::string preload_with(const std::string& library) {
    const char* const others = std::getenv("LD_PRELOAD");
    return "LD_PRELOAD=" +
           (others == nullptr || *others == '\0' ? library : std::string(others) + ":" + library);
}

std::string preload_in_front(const std::string& library) {
    const char* const set = std::getenv("LD_PRELOAD");
    std::string before;
    std::string behind;
    // The loader takes both for a separator.
    std::string others = set != nullptr ? set : "";
    std::ranges::replace(others, ' ', ':');
    std::istringstream list(others);
    for (std::string other; std::getline(list, other, ':');) {
        if (behind.empty() && is_runtime_of_sanitizer(other)) {
            before += other + ":";
        } else if (!other.empty()) {
            behind += ":" + other;
        }
    }
    return "LD_PRELOAD=" + before + library + behind;
}

std::string before_sanitizer() {
    const char* const set = std::getenv("ASAN_OPTIONS");
    const std::string options = set != nullptr ? set : "";
    // What comes later holds: what somebody has said.
    return options.find("verify_asan_link_order") != std::string::npos
               ? "ASAN_OPTIONS=" + options
               : "ASAN_OPTIONS=verify_asan_link_order=0" + (options.empty() ? "" : ":" + options);
}

pid_t start(std::vector<std::string> command, std::vector<std::string> environment,
            const BlockedSignals& signals, const Streams& streams) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, streams.out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, streams.err, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &signals.former());
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = 0;
    const int error = posix_spawnp(&child, command.front().c_str(), &actions, &attributes,
                                   pointers_to(command).data(), pointers_to(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        tell_why_not(command.front(), error);
        errno = error;
        return -1;
    }
    return child;
}

int exit_status(int status) noexcept {
    return WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status);
}

void end_what_was_left() {
    const std::string children = "/proc/self/task/" + std::to_string(getpid()) + "/children";
    for (;;) {
        std::ifstream list(children);
        bool any = false;
        for (pid_t pid = 0; list >> pid;) {
            kill(pid, SIGKILL);
            any = true;
        }
        if (!any || (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD)) {
            return;
        }
    }
}

} // namespace sluice::tools
