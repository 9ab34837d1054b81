// SPDX-License-Identifier: BSD-3-Clause
#include "tools/scratch.hpp"

#include <cstdlib>

namespace sluice::tools {

std::vector<std::string> scratch_folders() {
    std::vector<std::string> folders = {"/dev/shm", "/tmp"};
    const char* const chosen = std::getenv("TMPDIR");
    if (chosen != nullptr && *chosen == '/') {
        folders.insert(folders.begin(), chosen);
    }
    return folders;
}

} // namespace sluice::tools
