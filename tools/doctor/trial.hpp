// SPDX-License-Identifier: BSD-3-Clause
//
// A command that is tried, and what it said.
#pragma once

#include <string>
#include <vector>

namespace sluice::tools::doctor {

struct Trial {
    int status = 0;  // as a shell has it: 128 + n after signal n, 127 where there is no such command
    std::string out; // the end of its standard output
    std::string err; // the end of its standard error
};

enum class Echo { kNone, kBoth };

// Runs COMMAND with VARIABLES ("NAME=VALUE") added to the environment, and waits until it has ended.
// With Echo::kBoth what it prints goes to standard error at once, so that standard output stays the report's.
Trial try_command(const std::vector<std::string>& command, const std::vector<std::string>& variables,
                  Echo echo);

} // namespace sluice::tools::doctor
