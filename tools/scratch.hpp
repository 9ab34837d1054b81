// SPDX-License-Identifier: BSD-3-Clause
//
// Where the command keeps files of its own while another command runs.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools {

// Absolute paths of directories to try in this order: the one that somebody has chosen, in memory, on disk.
std::vector<std::string> scratch_folders();

// A directory that nobody else may enter, and that goes with its owner.
class ScratchFolder {
  public:
    // NAME is what it begins with. A Failure of SUBCOMMAND, which wants it for PURPOSE, where none can be
    // made.
    ScratchFolder(const std::string& subcommand, const std::string& name, const std::string& purpose);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    // Absolute.
    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

} // namespace sluice::tools
