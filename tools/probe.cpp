// SPDX-License-Identifier: BSD-3-Clause
#include "tools/probe.hpp"

#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tools/output.hpp"
#include "tools/parts.hpp"

namespace sluice::tools {

namespace {

// Everything that HELPER prints, given that argument or none.
std::string output_of(const std::string& helper, const char* argument = nullptr) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Failure(kExitFailure, std::string("pipe: ") + std::strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::array<char*, 3> arguments{const_cast<char*>(helper.c_str()), const_cast<char*>(argument), nullptr};
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

// The plugin's files under ROOT, each once: its names for several libibverbs are links to one.
std::set<std::string> installed_plugins(const std::string& root) {
    std::set<std::string> plugins;
    for (const char* pattern :
         {"/usr/lib/*/libibverbs/libsluice-rdmav*.so", "/usr/lib*/libibverbs/libsluice-rdmav*.so",
          "/usr/local/lib/libibverbs/libsluice-rdmav*.so",
          "/usr/local/lib/*/libibverbs/libsluice-rdmav*.so"}) {
        glob_t found{};
        if (glob((root + pattern).c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
            for (std::size_t i = 0; i < found.gl_pathc; ++i) {
                std::error_code failed;
                const auto file = std::filesystem::canonical(found.gl_pathv[i], failed);
                plugins.insert(failed ? found.gl_pathv[i] : file.string());
            }
        }
        globfree(&found);
    }
    return plugins;
}

// What the helper told about a plugin: the dynamic linker's reason, the plugin's own, or none.
std::optional<std::string> reason_in(const std::string& output) {
    constexpr std::string_view kDeclines = "no device is taken: ";
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('!')) {
            return line.substr(1);
        }
        if (const std::size_t at = line.find(kDeclines); at != std::string::npos) {
            return line.substr(at + kDeclines.size());
        }
    }
    return std::nullopt;
}

} // namespace

bool plugin_is_installed(const std::string& root) {
    return !installed_plugins(root).empty();
}

std::optional<std::string> why_plugin_declines() {
    std::optional<std::string> reason;
    for (const std::string& plugin : installed_plugins("")) {
        reason = reason_in(output_of(find_part(kProviderProbe), plugin.c_str()));
        if (!reason) {
            break; // those of other architectures don't matter then
        }
    }
    return reason;
}

std::string why_not_loaded(const std::string& library) {
    try {
        const std::string said = output_of(find_part(kProviderProbe), library.c_str());
        return said.starts_with('!') ? said.substr(1, said.find('\n') - 1) : "";
    } catch (const Failure&) { // the library ended the helper: it was loaded
        return "";
    }
}

std::map<std::string, Probed> probe_providers() {
    std::istringstream lines(output_of(find_part(kProviderProbe)));
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
