// SPDX-License-Identifier: BSD-3-Clause
//
// What the loader will do with a command's file: whether a library can be preloaded into it.
#pragma once

#include <string>

namespace sluice::tools {

// The file that execvp() would start; empty where there is none.
std::string file_of_command(const std::string& command);

struct Obstacle {
    std::string why; // a sentence about the file, with its path; empty: there is none
    // Whether nothing can come of the command. Otherwise it may start others, which get what is preloaded.
    bool is_final = false;
    bool is_by_rights = false; // a copy of the file, which has its caller's rights only, has no such obstacle
};

// What a program misses into which nothing is preloaded.
struct Preloaded {
    const char* subcommand; // that preloads it
    const char* effect;
    const char* remedy;
};
inline constexpr Preloaded kShowsUroce{"run", "find uroce's devices", "link it with libibverbs.so"};
inline constexpr Preloaded kSimulatesHost{"sync run", "be on a simulated host", "link it dynamically"};
inline constexpr Preloaded kSimulatesPower{"persist run", "lose what isn't durable", "link it dynamically"};
inline constexpr Preloaded kChecksProgram{"check", "be checked", "link it dynamically"};
inline constexpr Preloaded kTracesProgram{"trace", "be traced", "link it dynamically"};

// COMMAND is found as execvp() finds it; a script stands for its interpreter. What can't be found or read is
// no obstacle: starting it tells why.
Obstacle obstacle_to_preloading(const std::string& command, const Preloaded& preloaded);

} // namespace sluice::tools
