// SPDX-License-Identifier: BSD-3-Clause
//
// The copies get a library that is preloaded (layers/hosts), and a directory for the images of what they
// share. What they leave in it tells afterwards what couldn't be seen.
#include "tools/hosts.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tools/child.hpp"
#include "tools/copies.hpp"
#include "tools/parts.hpp"
#include "tools/scratch.hpp"
#include "tools/seed.hpp"

namespace sluice::tools {

namespace {

namespace fs = std::filesystem;

// In memory, unless somebody has chosen: what hosts share shall cost no disk.
class ImageDirectory {
  public:
    const std::string& path() const { return folder_.path(); }
    bool has(const std::string& name) const { return fs::exists(path() + "/" + name); }
    bool has_images() const {
        return std::any_of(
            fs::directory_iterator(path()), fs::directory_iterator(),
            [](const fs::directory_entry& entry) { return entry.path().extension() == ".known"; });
    }

  private:
    const ScratchFolder folder_{"sync run", "sluice-hosts", "the images of hosts"};
};

Facts facts_of_host(unsigned host, const HostOptions& how, std::uint64_t seed, const std::string& directory) {
    const std::string number = std::to_string(host);
    const std::string hosts = std::to_string(how.hosts);
    return {{"{host}", "SYNC_HOST", number},
            {"{hosts}", "SYNC_HOSTS", hosts},
            {"", "SLUICE_SYNC_HOST",
             number + ":" + hosts + ":" + std::to_string(seed) + ":" + std::to_string(how.evictions) + ":" +
                 directory}};
}

// What nobody has seen proves nothing.
void tell_what_was_not_seen(const ImageDirectory& directory, unsigned hosts) {
    if (!directory.has_images()) {
        std::cerr << "sluice: sync run: no host has mapped a file to share it (MAP_SHARED) by libc's mmap(): "
                     "nothing was tried\n";
        return;
    }
    for (unsigned host = 0; host < hosts; ++host) {
        if (!directory.has("used." + std::to_string(host))) {
            std::cerr << "sluice: sync run: host " << host
                      << " has called no function of libsluice-sync; a program's own cache instructions "
                         "can't be seen\n";
        }
    }
}

} // namespace

int run_sync_run(const Options& options, const HostOptions& how, const std::vector<std::string>& command) {
    if (options.json || !options.root.empty()) {
        throw Failure(kExitUsage, "sync run: --json and --root have no meaning here");
    }
    const std::uint64_t seed = how.seed ? *how.seed : drawn_seed("sync run");
    const ImageDirectory directory;
    CopyOptions copies{
        .called = "host",
        .start = Start::kTogether,
        .preloaded = kSimulatesHost,
        .timeout_seconds = how.timeout_seconds,
        .environment = {preload_with(part_for_loader(find_part(kHosts), "LD_PRELOAD")), before_sanitizer()},
        .facts = {}};
    if (std::getenv("SLUICE_SYNC_CHECK") == nullptr) {
        copies.environment.emplace_back("SLUICE_SYNC_CHECK=yes");
    }
    for (unsigned host = 0; host < how.hosts; ++host) {
        copies.facts.push_back(facts_of_host(host, how, seed, directory.path()));
    }
    const int status = run_copies(copies, command);
    if (status == kNotFound || status == kExitNotExecutable) {
        return status; // nothing has run
    }
    tell_what_was_not_seen(directory, how.hosts);
    if (status != 0) {
        std::cerr << "sluice: sync run: the seed was " << seed << '\n';
    }
    return status;
}

} // namespace sluice::tools
