// SPDX-License-Identifier: BSD-3-Clause
//
// Where the command keeps files of its own while another command runs.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools {

// Absolute paths of directories to try in this order: the one that somebody has chosen, in memory, on disk.
std::vector<std::string> scratch_folders();

} // namespace sluice::tools
