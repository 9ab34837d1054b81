// SPDX-License-Identifier: BSD-3-Clause
//
// Where this benchmark lies, and what else its build has.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include "tests/bench/failure.hpp"

namespace sluice::bench {

inline std::string own_path() {
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    if (length <= 0) {
        die("find the own program");
    }
    return {path.data(), static_cast<std::size_t>(length)};
}

inline std::string own_folder() {
    const std::string self = own_path();
    return self.substr(0, self.rfind('/'));
}

// PATH begins at the build's root. It is there, or this is the end: what is measured in its place would be
// something else.
inline std::string in_build(const char* path) {
    const std::string self = own_path();
    std::string found = self.substr(0, self.rfind("/tests/bench/")) + "/" + path;
    if (access(found.c_str(), R_OK) != 0) {
        die(found.c_str());
    }
    return found;
}

} // namespace sluice::bench
