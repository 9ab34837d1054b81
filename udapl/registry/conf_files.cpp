// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/conf_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace sluice::dat {

namespace {

constexpr std::array kPlaces{"/etc/dat.conf", "/etc/dat/dat.conf", "/etc/rdma/dat.conf",
                             "/etc/ofed/dat.conf"};
constexpr const char* kDirectory = "/etc/dat.conf.d";
constexpr std::string_view kSuffix = ".conf";

// The API that this library serves.
constexpr std::uint32_t kApiMajor = 1;

std::string why_not(const ConfEntry& entry) {
    if (entry.is_for_kernel) {
        return "it is for the kernel (k)";
    }
    if (!entry.is_default) {
        return "it is marked nondefault";
    }
    if (entry.api_major != kApiMajor) {
        return "it is for API " + std::to_string(entry.api_major) + ", and this library serves API 1";
    }
    return "";
}

void add_file_problem(const std::string& file, const char* problem, StaticRegistry& registry) {
    registry.all.push_back({{}, file, 0, problem, false});
}

void read_file(const FileTree& tree, const std::string& file, bool is_asked_for, StaticRegistry& registry) {
    FileStatus status{};
    const Result<std::string> text = tree.read(file, kMaxConfBytes, &status);
    if (!text) {
        add_file_problem(file, text.error().text(), registry);
        return;
    }
    if (!is_asked_for && runs_with_privileges() && !is_trustworthy(status)) {
        add_file_problem(file,
                         "with privileges, only a file that belongs to root and that nobody else may write "
                         "is read (chown root:root, chmod 0644)",
                         registry);
        return;
    }
    Conf conf = parse_conf(*text);
    const auto first = static_cast<std::ptrdiff_t>(registry.all.size());
    for (ConfEntry& entry : conf.entries) {
        const int line = entry.line;
        std::string problem = why_not(entry);
        registry.all.push_back({std::move(entry), file, line, std::move(problem), true});
    }
    for (ConfProblem& problem : conf.problems) {
        registry.all.push_back({{}, file, problem.line, std::move(problem.text), false});
    }
    std::stable_sort(registry.all.begin() + first, registry.all.end(),
                     [](const StaticEntry& a, const StaticEntry& b) { return a.line < b.line; });
}

// The files that are there, each once: some places are links to others.
std::vector<std::string> find_files(const FileTree& tree) {
    std::vector<std::string> candidates(kPlaces.begin(), kPlaces.end());
    if (const Result<std::vector<std::string>> names = tree.list(kDirectory); names) {
        for (const std::string& name : *names) {
            if (name.ends_with(kSuffix) && !name.starts_with('.')) {
                candidates.push_back(std::string(kDirectory) + "/" + name);
            }
        }
    }
    std::vector<std::string> files;
    std::vector<std::string> resolved;
    for (std::string& candidate : candidates) {
        Result<std::string> path = tree.resolve(candidate);
        if (path && tree.exists(*path) && std::ranges::find(resolved, *path) == resolved.end()) {
            resolved.push_back(*std::move(path));
            files.push_back(std::move(candidate));
        }
    }
    return files;
}

// What our own provider serves is a further name of a device, and takes none away.
bool names_other_provider(const StaticEntry& read) {
    constexpr std::string_view kOwnLibrary = "libdapl-sluice.so";
    const std::string_view library = read.entry.library;
    return read.counts() && !library.substr(library.rfind('/') + 1).starts_with(kOwnLibrary);
}

} // namespace

StaticRegistry read_static_registry(const FileTree& tree, const char* override_path) {
    StaticRegistry registry;
    if (override_path != nullptr) {
        std::error_code error;
        const std::filesystem::path absolute = std::filesystem::absolute(override_path, error);
        if (error) {
            add_file_problem(override_path, "there is no such file", registry);
        } else {
            read_file(FileTree(), absolute.string(), true, registry);
        }
        return registry;
    }
    for (const std::string& file : find_files(tree)) {
        read_file(tree, file, false, registry);
    }
    registry.devices_count = std::ranges::none_of(registry.all, names_other_provider);
    return registry;
}

} // namespace sluice::dat
