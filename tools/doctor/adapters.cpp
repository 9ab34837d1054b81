// SPDX-License-Identifier: BSD-3-Clause
//
// dat.conf: lines that programs for DAT pass over, and entries whose library or device isn't there.
#include <algorithm>
#include <cstdlib>

#include "tools/dat_entries.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/trial.hpp"
#include "tools/library.hpp"
#include "tools/parts.hpp"

namespace sluice::tools::doctor {

namespace {

// A file that can't be used as a whole: DAT_OVERRIDE's, or one with wrong rights.
Remedy remedy_for_file(const DatEntry& entry) {
    const char* const said = std::getenv("DAT_OVERRIDE");
    if (said != nullptr && entry.file == said) {
        return {"unset DAT_OVERRIDE", ""};
    }
    return {"", "root, who should look at that file"};
}

// The dynamic linker's reason; empty: it can be loaded.
std::string why_not_opened(const std::string& library) {
    const Trial trial = try_command({find_part(kProviderProbe), library}, {}, Echo::kNone);
    return trial.out.starts_with('!') ? trial.out.substr(1, trial.out.find('\n') - 1) : "";
}

bool is_ours(const DatEntry& entry) {
    return entry.library.find("libdapl-sluice") != std::string::npos;
}

bool is_a_device(const std::string& name, const Options& options) {
    const std::vector<std::string> names = device_names(options);
    return name.empty() || name.starts_with("uroce") || name.find_first_of(".:") != std::string::npos ||
           std::ranges::find(names, name) != names.end();
}

void check_entry(const DatEntry& entry, const Options& options, Report& report) {
    const std::string lead = entry.origin() + ": '" + entry.ia_name + "' ";
    if (options.root.empty()) {
        if (const std::string why = why_not_opened(entry.library); !why.empty()) {
            report.problem(lead + "can't be opened: " + why,
                           comment_out(options.root + entry.file, entry.line));
            return;
        }
    }
    if (is_ours(entry) && !is_a_device(entry.instance_data, options)) {
        report.problem(lead + "names the device " + entry.instance_data + ", which isn't there",
                       comment_out(options.root + entry.file, entry.line));
        return;
    }
    report.ok(lead + "is " + entry.library);
}

} // namespace

void check_adapters(const Options& options, Report& report) {
    for (const DatEntry& entry : dat_entries_for_programs(options)) {
        if (entry.counts()) {
            check_entry(entry, options, report);
        } else if (!entry.is_entry) {
            report.problem(entry.origin() + ": " + entry.problem,
                           entry.line == 0 ? remedy_for_file(entry)
                                           : comment_out(options.root + entry.file, entry.line));
        }
    }
}

} // namespace sluice::tools::doctor
