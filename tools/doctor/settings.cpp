// SPDX-License-Identifier: BSD-3-Clause
//
// Sluice's own variables and sluice.conf: what can't be understood, and what makes uroce do other things on
// purpose.
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tools/doctor/checks.hpp"
#include "tools/library.hpp"

namespace sluice::tools::doctor {

namespace {

bool is_of_environment(const sluice_setting& setting) {
    return std::strcmp(setting.origin, "environment") == 0;
}

// "yes|no": nothing else may stand there. Other texts describe what may.
bool is_list_of_words(const std::string& values) {
    return values.find('|') != std::string::npos &&
           values.find_first_not_of("abcdefghijklmnopqrstuvwxyz|") == std::string::npos;
}

bool is_one_of(const std::string& value, const std::string& values) {
    return ("|" + values + "|").find("|" + value + "|") != std::string::npos;
}

// What is uroce's is found out by opening a device.
void check_words(const sluice_setting& setting, Report& report) {
    if (!std::string_view(setting.name).starts_with("SLUICE_UROCE_") && is_list_of_words(setting.values) &&
        !is_one_of(setting.value, setting.values)) {
        report.problem(std::string(setting.name) + " is '" + setting.value + "'; it may be " + setting.values,
                       {std::string("unset ") + setting.name, ""});
    }
}

void check_counters_directory(const sluice_setting& setting, Report& report) {
    struct stat status {};
    const std::string directory = setting.value;
    if (std::strcmp(setting.name, "SLUICE_UROCE_COUNTERS") != 0 || directory == "no" ||
        (stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode))) {
        return;
    }
    const std::string fact = "SLUICE_UROCE_COUNTERS names '" + directory +
                             "', which is no directory: `sluice stat` will find nothing";
    const bool can_be_made = directory.starts_with('/') && stat(directory.c_str(), &status) != 0;
    report.warn(fact,
                {can_be_made ? "mkdir -p " + shell_word(directory) : "unset SLUICE_UROCE_COUNTERS", ""});
}

void check_faults(const sluice_setting& setting, Report& report) {
    if (std::strcmp(setting.name, "SLUICE_UROCE_FAULTS") == 0 && setting.value[0] != '\0') {
        report.warn("SLUICE_UROCE_FAULTS is set: uroce devices inject faults on purpose",
                    {"unset SLUICE_UROCE_FAULTS", ""});
    }
}

void check_coherence_variable(const sluice_setting& setting, Report& report) {
    if (std::strcmp(setting.name, "SLUICE_COHERENCE") == 0 &&
        std::string(setting.value).find("simulated") != std::string::npos) {
        report.warn("SLUICE_COHERENCE asks for a simulated device that doesn't see the CPU's caches: it is "
                    "slower, and programs that don't call the sync functions see stale data",
                    {"unset SLUICE_COHERENCE", ""});
    }
}

// The library reads these when it is asked about a device, and the log's when it is loaded.
void check_by_asking(const Options& options) {
    if (options.root.empty()) {
        (void)query_device(options, "uroce0");
        return;
    }
    for (const std::string& name : device_names(options)) {
        (void)query_device(options, name);
    }
}

} // namespace

void check_settings(const Options& options, Report& report) {
    const std::vector<sluice_setting> all = settings(options);
    const auto from_environment = std::ranges::count_if(all, is_of_environment);
    for (const sluice_setting& setting : all) {
        if (is_of_environment(setting)) {
            check_words(setting, report);
            check_counters_directory(setting, report);
            check_faults(setting, report);
            check_coherence_variable(setting, report);
        }
    }
    check_by_asking(options);
    const auto from_file =
        std::ranges::count_if(all, [](const sluice_setting& each) { return each.origin[0] == '/'; });
    report.ok("variables: " + std::to_string(from_environment) +
              ", keys of sluice.conf: " + std::to_string(from_file) + "; `sluice config` lists them");
}

} // namespace sluice::tools::doctor
