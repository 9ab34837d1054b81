// SPDX-License-Identifier: BSD-3-Clause
//
// What dat.conf's lines say, and which adapters programs for DAT can open.
#pragma once

#include <dat/udat.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/output.hpp"

namespace sluice::tools {

inline constexpr int kAdaptersSchema = 1;
inline constexpr const char* kLibrary = "libdapl-sluice.so.1";

// One line of a dat.conf, or what is said about a file.
struct DatEntry {
    std::string ia_name;
    std::string api;
    bool is_thread_safe;
    std::string library;
    std::string instance_data;
    std::string file;
    unsigned line; // 0: the whole file
    bool is_entry; // false: a line or file that is not understood
    std::string problem;

    std::string origin() const { return line == 0 ? file : file + ":" + std::to_string(line); }
    bool counts() const { return problem.empty(); }
};

// What can be opened.
struct Adapter {
    std::string name;
    std::string api;
    bool is_thread_safe;
    std::string library; // empty: it is found out when it is opened
    std::string origin;
};

std::string dat_version_text(std::uint32_t major, std::uint32_t minor);

// What programs see, DAT_OVERRIDE included.
std::vector<DatEntry> dat_entries_for_programs(const Options& options);
// What stands in the usual places, whatever DAT_OVERRIDE says.
std::vector<DatEntry> dat_entries_on_disk(const Options& options);

// What ENTRIES name, and this machine's devices that they don't name.
std::vector<Adapter> read_adapters(const Options& options, const std::vector<DatEntry>& entries);
void print_adapters(const Options& options, const std::vector<Adapter>& adapters);

nlohmann::ordered_json to_json(const Adapter& adapter);
void print(const nlohmann::ordered_json& document);
// "DAT_INVALID_HANDLE DAT_INVALID_HANDLE_IA".
std::string describe_status(DAT_RETURN status);

} // namespace sluice::tools
