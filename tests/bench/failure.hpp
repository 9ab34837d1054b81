// SPDX-License-Identifier: BSD-3-Clause
//
// A benchmark that can't go on says why, and ends with 1.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sluice::bench {

[[noreturn]] inline void die(const char* what) {
    std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, std::strerror(errno));
    _exit(1);
}

template<typename T>
T* need(T* made, const char* what) {
    if (made == nullptr) {
        die(what);
    }
    return made;
}

// ERROR may be an errno, or negative: then errno has it.
inline void need_zero(int error, const char* what) {
    if (error != 0) {
        errno = error > 0 ? error : errno;
        die(what);
    }
}

} // namespace sluice::bench
