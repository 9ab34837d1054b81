// SPDX-License-Identifier: BSD-3-Clause
//
// What the command's parts share: how it ends, and how it prints.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::tools {

// Exit statuses; documented in sluice(1).
enum ExitStatus {
    kExitOk = 0,
    kExitFailure = 1,
    kExitUsage = 2,
    kExitNoDevice = 3,        // or none can be made
    kExitNotExecutable = 126, // of `sluice run`, as shells say it
};

// Ends the command: TEXT goes to standard error.
class Failure : public std::runtime_error {
  public:
    Failure(ExitStatus status, const std::string& text) : std::runtime_error(text), status_(status) {}
    ExitStatus status() const noexcept { return status_; }

  private:
    ExitStatus status_;
};

// What every subcommand gets.
struct Options {
    bool json = false;
    std::string root; // empty: this machine
    const char* root_or_null() const noexcept { return root.empty() ? nullptr : root.c_str(); }
};

// Prints rows below each other, columns aligned, the last one as it is.
void print_table(const std::vector<std::vector<std::string>>& rows);

} // namespace sluice::tools
