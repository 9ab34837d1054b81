// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace sluice::tools {

// Whether other processes can map a command's memory.
enum class HeapIs { kPrivate, kShared };

// What the loader needs to be told, as "NAME=VALUE", so that a command finds uroce's devices. Throws a
// Failure where a part of the installation is missing, or lies where the loader can't be told of it.
std::vector<std::string> loader_environment(HeapIs heap = HeapIs::kPrivate);

} // namespace sluice::tools
