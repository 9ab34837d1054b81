// SPDX-License-Identifier: BSD-3-Clause
//
// The limits that a program inherits from here.
#include <sys/resource.h>
#include <unistd.h>

#include "tools/doctor/checks.hpp"
#include "tools/library.hpp"

namespace sluice::tools::doctor {

namespace {

constexpr rlim_t kKibibyte = 1024;

struct Limit {
    int resource;
    char option;       // of the shell's ulimit
    rlim_t unit_bytes; // what ulimit counts in
    rlim_t least;
    rlim_t wanted; // RLIM_INFINITY: none
};

rlimit value_of(const Limit& limit) {
    rlimit value{RLIM_INFINITY, RLIM_INFINITY};
    (void)getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value);
    return value;
}

std::string text_of(rlim_t value, rlim_t unit) {
    return value == RLIM_INFINITY ? "unlimited" : std::to_string(value / unit);
}

// The hard limit, if that is enough, can be had without privileges.
Remedy raise(const Limit& limit, rlim_t hard) {
    const std::string option(1, limit.option);
    if (hard == RLIM_INFINITY || hard >= limit.wanted) {
        return {"ulimit -S -" + option + " " + text_of(limit.wanted, limit.unit_bytes), ""};
    }
    if (hard >= limit.least) {
        return {"ulimit -S -" + option + " " + text_of(hard, limit.unit_bytes), ""};
    }
    if (geteuid() == 0) {
        return {"ulimit -" + option + " " + text_of(limit.wanted, limit.unit_bytes), ""};
    }
    return {"", "root, in /etc/security/limits.conf or where this session or container is started"};
}

void check_descriptors(Report& report) {
    constexpr Limit kDescriptors{RLIMIT_NOFILE, 'n', 1, 64, 1024};
    const rlimit value = value_of(kDescriptors);
    const std::string fact = "a program may open " + text_of(value.rlim_cur, 1) + " files";
    if (value.rlim_cur >= kDescriptors.least) {
        report.ok(fact);
        return;
    }
    report.problem(fact + "; a uroce device needs some 20, and two for each process that it talks to",
                   raise(kDescriptors, value.rlim_max));
}

void check_file_size(Report& report) {
    constexpr Limit kFileSize{RLIMIT_FSIZE, 'f', kKibibyte, rlim_t{16} * kKibibyte * kKibibyte,
                              RLIM_INFINITY};
    const rlimit value = value_of(kFileSize);
    if (value.rlim_cur < kFileSize.least) {
        report.problem("a program may write files of " + text_of(value.rlim_cur, kKibibyte) +
                           " KiB, and a uroce device keeps its rings in files of memory",
                       raise(kFileSize, value.rlim_max));
    }
}

void check_locked_memory(const Options& options, Report& report) {
    constexpr Limit kLocked{RLIMIT_MEMLOCK, 'l', kKibibyte, rlim_t{1} * kKibibyte * kKibibyte, RLIM_INFINITY};
    const rlimit value = value_of(kLocked);
    const std::string fact = "a program may lock " + text_of(value.rlim_cur, kKibibyte) + " KiB of memory";
    if (value.rlim_cur == RLIM_INFINITY) {
        report.ok("a program may lock as much memory as there is");
    } else if (device_names(options).empty()) {
        report.ok(fact + "; uroce pins none");
    } else if (value.rlim_cur < kLocked.least) {
        report.problem(fact + ", and the kernel's devices pin all that is registered",
                       raise(kLocked, value.rlim_max));
    } else {
        report.ok(fact + ", and the kernel's devices pin all that is registered");
    }
}

} // namespace

void check_limits(const Options& options, Report& report) {
    check_descriptors(report);
    check_file_size(report);
    check_locked_memory(options, report);
}

} // namespace sluice::tools::doctor
