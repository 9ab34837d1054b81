// SPDX-License-Identifier: BSD-3-Clause
//
// Copies of a command that run beside each other, with one output and one exit status: ranks, or hosts.
//
// One thread: it waits for output, signals and time. Output is passed on in whole lines, each behind its
// copy's number. When one fails, the others have a few seconds to notice by themselves.
#pragma once

#include <string>
#include <vector>

#include "tools/executable.hpp"

namespace sluice::tools {

// What a copy is told, under its name in braces, if it has one, and in its variable.
struct Fact {
    const char* name;
    const char* variable;
    std::string value;
};
using Facts = std::vector<Fact>;

enum class Start { kTogether, kFirstListens };

struct CopyOptions {
    const char* called = "rank"; // in messages
    Start start = Start::kTogether;
    Preloaded preloaded = kShowsUroce;
    unsigned timeout_seconds = 0;         // 0: none
    std::vector<std::string> environment; // "NAME=value", for all of them
    std::vector<Facts> facts;             // for each copy
};

// COMMAND may have several parts, separated by ":": copy N gets the Nth, and all behind the last one that.
// Gives 0, or the status of the first that failed.
int run_copies(const CopyOptions& options, const std::vector<std::string>& command);

} // namespace sluice::tools
