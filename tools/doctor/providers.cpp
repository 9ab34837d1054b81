// SPDX-License-Identifier: BSD-3-Clause
//
// What libibverbs will load for the kernel's devices: its configuration, the providers' files, and whether
// these were built for its private interface.
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "tools/doctor/checks.hpp"
#include "tools/library.hpp"
#include "tools/probe.hpp"

namespace sluice::tools::doctor {

namespace {

constexpr const char* kDrivers = "/etc/libibverbs.d";

// Of the libibverbs that programs get: where it looks for providers, and the name of its private interface.
struct Libibverbs {
    std::string pattern; // ".../lib%s-rdmav34.so"
    std::string abi;     // "34"; empty: unknown
};

std::string digits_behind(const std::string& content, const std::string& word) {
    const std::size_t at = content.find(word);
    if (at == std::string::npos) {
        return {};
    }
    const std::size_t begin = at + word.size();
    return content.substr(begin, content.find_first_not_of("0123456789", begin) - begin);
}

std::string content_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string private_abi_of(const std::string& content) {
    return digits_behind(content, "IBVERBS_PRIVATE_");
}

// The text in CONTENT that ends at a zero, begins with a slash, and has PART in it.
std::string path_with(const std::string& content, const std::string& part) {
    for (std::size_t at = content.find(part); at != std::string::npos; at = content.find(part, at + 1)) {
        const std::size_t begin = content.rfind('\0', at) + 1;
        if (content[begin] == '/') {
            return content.substr(begin, content.find('\0', at) - begin);
        }
    }
    return {};
}

Libibverbs find_libibverbs() {
    void* const handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
    link_map* map = nullptr;
    if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        return {};
    }
    const std::string content = content_of_file(map->l_name);
    dlclose(handle);
    return {path_with(content, "/lib%s-rdmav"), private_abi_of(content)};
}

std::string plugin_of(const Libibverbs& library, const std::string& driver) {
    std::string path = driver.starts_with('/') ? driver + "-rdmav" + library.abi + ".so" : library.pattern;
    const std::size_t place = path.find("%s");
    return place == std::string::npos ? path : path.replace(place, 2, driver);
}

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { closedir(directory); }
};

// The files that libibverbs reads there, in any order.
std::vector<std::string> driver_files() {
    std::vector<std::string> files;
    const std::unique_ptr<DIR, CloseDirectory> directory(opendir(kDrivers));
    while (const dirent* entry = directory ? readdir(directory.get()) : nullptr) {
        const std::string path = std::string(kDrivers) + "/" + entry->d_name;
        struct stat status {};
        if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
            files.push_back(path);
        }
    }
    std::ranges::sort(files);
    return files;
}

// What keeps libibverbs from loading the provider of a DRIVER; empty: nothing.
std::string why_not_loaded(const Libibverbs& library, const std::string& driver) {
    const std::string plugin = plugin_of(library, driver);
    if (access(plugin.c_str(), R_OK) != 0) {
        return plugin + " isn't there";
    }
    const std::string abi = private_abi_of(content_of_file(plugin));
    if (!abi.empty() && !library.abi.empty() && abi != library.abi) {
        return plugin + " was built for the private interface " + abi + ", and this libibverbs has " +
               library.abi;
    }
    return {};
}

Remedy remedy_for_driver(const std::string& driver, const std::string& file, unsigned line) {
    if (driver == "sluice") {
        return as_root("sluice provider disable");
    }
    return comment_out(file, line);
}

// Whether LINE, which has that number, names a provider that can be loaded.
bool check_driver_line(const std::string& line, const std::string& file, unsigned number,
                       const Libibverbs& library, Report& report) {
    std::istringstream words(line);
    std::string word;
    std::string driver;
    if (!(words >> word) || word[0] == '#') {
        return false;
    }
    const std::string place = file + ":" + std::to_string(number) + ": ";
    if (word != "driver" || !(words >> driver)) {
        report.warn(place + "libibverbs warns of this line and ignores it", comment_out(file, number));
        return false;
    }
    const std::string why = why_not_loaded(library, driver);
    if (!why.empty()) {
        report.warn(place + "libibverbs can't load " + driver + ": " + why,
                    remedy_for_driver(driver, file, number));
    }
    return why.empty();
}

// How many of its lines name a provider that can be loaded.
unsigned check_driver_file(const std::string& file, const Libibverbs& library, Report& report) {
    std::ifstream text(file);
    unsigned good = 0;
    unsigned number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        good += check_driver_line(line, file, number, library, report) ? 1 : 0;
    }
    return good;
}

void check_asked_for(const std::string& driver, const char* variable, const Libibverbs& library,
                     Report& report) {
    if (const std::string why = driver.empty() ? "" : why_not_loaded(library, driver); !why.empty()) {
        report.problem(std::string(variable) + " asks for " + driver + ", and " + why,
                       {std::string("unset ") + variable, ""});
    }
}

// Names, with colons or semicolons between them.
void check_variable(const char* name, const Libibverbs& library, Report& report) {
    const char* const said = std::getenv(name);
    std::string names = said != nullptr ? said : "";
    std::ranges::replace(names, ';', ':');
    std::istringstream list(names);
    for (std::string driver; std::getline(list, driver, ':');) {
        check_asked_for(driver, name, library, report);
    }
}

void check_sysfs_path(Report& report) {
    const char* const said = std::getenv("SYSFS_PATH");
    if (said != nullptr && access((std::string(said) + "/class").c_str(), F_OK) != 0) {
        report.problem(std::string("SYSFS_PATH is ") + said +
                           ", where no class/infiniband is: libibverbs finds no device of the kernel's",
                       {"unset SYSFS_PATH", ""});
    }
}

// Which provider drives DEVICE in a program that knows nothing of Sluice.
void check_winner(const std::string& device, const std::map<std::string, Probed>& winners, Report& report) {
    const auto found = winners.find(device);
    if (found == winners.end()) {
        report.problem("libibverbs doesn't list " + device + ": it has no provider for it",
                       {"", "root, by installing the provider (Debian: ibverbs-providers)"});
    } else if (found->second.path.empty()) {
        report.problem(device + " can't be opened: " + std::strerror(found->second.os_errno),
                       {"", "root; `sluice provider status` tells more"});
    } else {
        report.ok(device + " is driven by " + found->second.path);
    }
}

void check_winners(const Options& options, Report& report) {
    const std::vector<std::string> devices = device_names(options);
    if (devices.empty()) {
        return;
    }
    const std::map<std::string, Probed> winners = probe_providers();
    for (const std::string& device : devices) {
        check_winner(device, winners, report);
    }
}

} // namespace

void check_providers(const Options& options, Report& report) {
    check_sysfs_path(report);
    const Libibverbs library = find_libibverbs();
    if (library.pattern.empty()) {
        report.problem("the dynamic linker finds no libibverbs.so.1 with providers",
                       {"", "root, by installing rdma-core's libibverbs (Debian: libibverbs1)"});
        return;
    }
    check_variable("RDMAV_DRIVERS", library, report);
    check_variable("IBV_DRIVERS", library, report);
    unsigned good = 0;
    for (const std::string& file : driver_files()) {
        good += check_driver_file(file, library, report);
    }
    report.ok("libibverbs has the private interface " + library.abi +
              "; providers that it can load: " + std::to_string(good));
    check_winners(options, report);
    if (const auto why = why_plugin_declines()) {
        report.warn("Sluice's provider takes no device: " + *why, {"", "root, by installing the one of this "
                                                                       "libibverbs"});
    }
}

} // namespace sluice::tools::doctor
