// SPDX-License-Identifier: BSD-3-Clause
//
// What the dynamic linker is told for every program, and what `sluice run` needs besides: its parts, and a
// directory for the devices' files.
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <sstream>

#include "tools/doctor/checks.hpp"
#include "tools/doctor/trial.hpp"
#include "tools/loader_environment.hpp"
#include "tools/parts.hpp"

namespace sluice::tools::doctor {

namespace {

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

void check_preload(Report& report) {
    std::string list = variable("LD_PRELOAD");
    for (char& each : list) {
        each = each == ' ' ? ':' : each;
    }
    std::istringstream libraries(list);
    for (std::string library; std::getline(libraries, library, ':');) {
        if (library.starts_with('/') && access(library.c_str(), R_OK) != 0) {
            report.warn("LD_PRELOAD names " + library +
                            ", which isn't there: every program says so and goes on",
                        {"unset LD_PRELOAD", ""});
        }
    }
}

// A libibverbs or librdmacm that the variable puts before the system's, and that can't be loaded.
void check_library_path(Report& report) {
    std::istringstream folders(variable("LD_LIBRARY_PATH"));
    for (std::string folder; std::getline(folders, folder, ':');) {
        for (const char* name : {"/libibverbs.so.1", "/librdmacm.so.1"}) {
            const std::string library = folder + name;
            if (folder.empty() || access(library.c_str(), F_OK) != 0) {
                continue;
            }
            const Trial trial = try_command({find_part(kProviderProbe), library}, {}, Echo::kNone);
            if (trial.status != 0 || trial.out.starts_with('!')) {
                report.problem("LD_LIBRARY_PATH leads programs to " + library + ", which can't be loaded",
                               {"unset LD_LIBRARY_PATH", ""});
            }
        }
    }
}

// The first of CANDIDATES that may be written to; empty: none.
std::string first_writable(std::initializer_list<std::string> candidates) {
    for (const std::string& candidate : candidates) {
        if (candidate.starts_with('/') && access(candidate.c_str(), W_OK | X_OK) == 0) {
            return candidate;
        }
    }
    return {};
}

Remedy remedy_for_directory() {
    const std::string other = first_writable({"/var/tmp", variable("HOME")});
    return other.empty() ? as_root("mount -t tmpfs -o mode=1777 tmpfs /tmp")
                         : Remedy{"export TMPDIR=" + shell_word(other), ""};
}

void check_directory(Report& report) {
    const std::string directory =
        first_writable({variable("XDG_RUNTIME_DIR"), variable("TMPDIR"), "/tmp", "/dev/shm"});
    if (directory.empty()) {
        report.problem("programs under `sluice run` need a directory for their devices' files, and none of "
                       "$XDG_RUNTIME_DIR, $TMPDIR, /tmp and /dev/shm may be written to",
                       remedy_for_directory());
    } else {
        report.ok("`sluice run` shows devices to programs by " + directory);
    }
}

} // namespace

void check_loader(const Options& /*options*/, Report& report) {
    check_preload(report);
    check_library_path(report);
    (void)loader_environment(); // throws where a part is missing
    check_directory(report);
}

} // namespace sluice::tools::doctor
