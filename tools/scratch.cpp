// SPDX-License-Identifier: BSD-3-Clause
#include "tools/scratch.hpp"

#include <cstdlib>
#include <filesystem>

#include "tools/output.hpp"

namespace sluice::tools {

std::vector<std::string> scratch_folders() {
    std::vector<std::string> folders = {"/dev/shm", "/tmp"};
    const char* const chosen = std::getenv("TMPDIR");
    if (chosen != nullptr && *chosen == '/') {
        folders.insert(folders.begin(), chosen);
    }
    return folders;
}

ScratchFolder::ScratchFolder(const std::string& subcommand, const std::string& name,
                             const std::string& purpose) {
    for (const std::string& folder : scratch_folders()) {
        std::string path = folder;
        path.append("/").append(name).append("-XXXXXX");
        if (mkdtemp(path.data()) != nullptr) {
            path_ = path;
            return;
        }
    }
    throw Failure(kExitFailure, subcommand + ": no directory for " + purpose +
                                    " can be made in $TMPDIR, /dev/shm or /tmp; set TMPDIR");
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

} // namespace sluice::tools
