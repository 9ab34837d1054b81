// SPDX-License-Identifier: BSD-3-Clause
//
// Files that the command writes: whole or not at all, and never over somebody else's.
#pragma once

#include <string>
#include <string_view>

#include "tools/output.hpp"

namespace sluice::tools {

// With errno's text, and what to do about it.
Failure system_failure(const std::string& what);

struct PlainFile {
    bool exists = false;
    // A link, even to something of ours, is somebody else's doing, and so is what is longer than we
    // would write.
    bool is_plain = false;
    std::string content; // when it is plain
};

PlainFile read_plain_file(const std::string& path);

// Also for a program that reads the file at this moment.
void write_atomically(const std::string& path, std::string_view content);

} // namespace sluice::tools
