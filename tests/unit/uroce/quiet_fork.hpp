// SPDX-License-Identifier: BSD-3-Clause
//
// fork() in a program with threads. What another thread has locked at that moment stays locked in the child,
// also the allocator of a sanitizer, which a thread that has just begun uses. Threads that sleep have locked
// nothing.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::uroce::test {

// As the kernel tells it: "PID (NAME) STATE ...".
inline bool sleeps(const std::filesystem::path& thread) {
    std::string status;
    std::getline(std::ifstream(thread / "stat"), status);
    const std::size_t name_end = status.rfind(')');
    return name_end != std::string::npos && status.compare(name_end, 3, ") S") == 0;
}

inline bool all_others_sleep() {
    const std::string self = std::to_string(gettid());
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        if (thread.path().filename() != self && !sleeps(thread.path())) {
            return false;
        }
    }
    return true;
}

inline pid_t quiet_fork() {
    while (!all_others_sleep()) {
        sched_yield();
    }
    return fork();
}

} // namespace sluice::uroce::test
