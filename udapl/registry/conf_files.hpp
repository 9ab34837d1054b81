// SPDX-License-Identifier: BSD-3-Clause
//
// Which providers an administrator, or the person who started the program, has named: the static
// registry of DAT.
//
// DAT_OVERRIDE names the one file that counts. Without it every dat.conf is read that distributions
// and vendors have had a place for, in a fixed order; of equal entries the earlier is tried first.
// A program with more rights than its caller doesn't see DAT_OVERRIDE (that is secure_getenv's
// doing), and with privileges the usual places count only if nobody but root could have written them.
#pragma once

#include <string>
#include <vector>

#include "core/file_tree.hpp"
#include "udapl/registry/conf_parser.hpp"

namespace sluice::dat {

// An entry, a line that is none, or a file that can't be read.
struct StaticEntry {
    ConfEntry entry;
    std::string file;
    int line = 0;        // 0: it is about the file
    std::string problem; // why it does not count; empty when it does
    bool is_entry = false;

    bool counts() const noexcept { return problem.empty(); }
};

struct StaticRegistry {
    std::vector<StaticEntry> all; // in the order in which they are tried
    // Nobody has named another provider than ours: every device counts that is found, too.
    bool devices_count = false;
};

// TREE is where the usual places are looked up. OVERRIDE is the value of DAT_OVERRIDE or null, a path
// of this machine; where that file can't be read, nothing else is.
StaticRegistry read_static_registry(const FileTree& tree, const char* override_path);

} // namespace sluice::dat
