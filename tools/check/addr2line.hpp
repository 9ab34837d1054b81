// SPDX-License-Identifier: BSD-3-Clause
//
// addr2line for one file, as a child.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tools/running_command.hpp"

namespace sluice::tools::check {

class Addr2Line {
  public:
    // 0, or what keeps it from being started.
    int start(const std::string& module);
    Addr2Line() = default;
    ~Addr2Line();
    Addr2Line(const Addr2Line&) = delete;
    Addr2Line& operator=(const Addr2Line&) = delete;

    // What it prints about ADDRESS. False: nothing in time, or nothing at all; then it is of no further use.
    bool ask(std::uint64_t address, RunningCommand& meanwhile, std::string& answer);
    bool was_silent() const noexcept { return was_silent_; }

  private:
    int socket_ = -1; // its standard input and output
    pid_t child_ = -1;
    bool was_silent_ = false;
};

} // namespace sluice::tools::check
