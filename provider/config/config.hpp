// SPDX-License-Identifier: BSD-3-Clause
//
// What somebody decided about devices: SLUICE_COHERENCE first, then /etc/sluice/sluice.conf.
//
// The file is read anew for each question: questions are rare, and an administrator expects a
// change to hold for the next program. A program that runs with privileges ignores a file that
// somebody other than root could have written, and says so in the log.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_tree.hpp"
#include "core/settings.hpp"
#include "provider/config/parser.hpp"

namespace sluice::config {

constexpr const char* kPath = "/etc/sluice/sluice.conf";
// What `sluice provider enable` writes, and libibverbs reads.
constexpr const char* kDriverFile = "/etc/libibverbs.d/sluice.driver";

// An empty File where there is none, or where it is not to be trusted.
Result<File> load(const FileTree& tree);

struct Decision {
    Coherence value = Coherence::kAuto;
    std::string origin; // "SLUICE_COHERENCE" or "/etc/sluice/sluice.conf:3"; empty for kAuto
    bool from_environment = false;
};

struct Decisions {
    Decision coherence;
    Decision io_coherence;
};

// What holds for a device.
Result<Decisions> decisions_for(const FileTree& tree, std::string_view device);

// The kernel drivers whose devices the plugin shall take when nothing else asks for it: what the
// key "claim" says; where it says nothing, both after `sluice provider enable` and none
// otherwise. A file that can't be understood claims nothing, and the log tells why.
Claim claimed_drivers(const FileTree& tree = FileTree());

// One line of `sluice config`.
struct Listed {
    std::string name;
    std::string value;  // what holds; where there is a problem, what is said
    std::string origin; // "default", "environment", or file and line
    std::string default_value;
    std::string values;
    std::string meaning;
    std::string problem = {}; // why the value isn't valid; empty: nothing is wrong with it
    bool is_unknown = false;  // set, and nobody reads it; VALUES has the names that may stand there
};

// Whether the code that reads SETTING understands TEXT. This room knows SLUICE_COHERENCE alone.
using CheckSetting = Result<void> (*)(Setting setting, const char* text);

// Every variable and every key, whether set or not, what is set for single devices, and what is set and not
// understood or not known. A file with problems, which holds for nobody, is no error here.
Result<std::vector<Listed>> list(const FileTree& tree, CheckSetting check);

} // namespace sluice::config
