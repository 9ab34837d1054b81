// SPDX-License-Identifier: BSD-3-Clause
#include "tools/parts.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

#include "tools/output.hpp"

namespace sluice::tools {

namespace {

std::string own_directory() {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    const std::string own(path.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    return own.substr(0, own.rfind('/'));
}

} // namespace

std::string find_part_or_nothing(const Part& part) {
    const std::string here = own_directory() + "/";
    for (const char* path : {part.built, part.installed}) {
        if (access((here + path).c_str(), R_OK) == 0) {
            return std::filesystem::weakly_canonical(here + path).string();
        }
    }
    return {};
}

std::string find_part(const Part& part) {
    std::string found = find_part_or_nothing(part);
    if (found.empty()) {
        throw Failure(kExitFailure,
                      std::string("its part '") + part.installed + "' is missing; install the command again");
    }
    return found;
}

} // namespace sluice::tools
