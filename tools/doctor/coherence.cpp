// SPDX-License-Identifier: BSD-3-Clause
//
// Whether each device sees the CPU's caches, or whether somebody has to say so.
#include <unistd.h>

#include "tools/doctor/checks.hpp"
#include "tools/library.hpp"

namespace sluice::tools::doctor {

namespace {

// What is always safe.
Remedy say_noncoherent(const std::string& device, const std::string& root) {
    const std::string directory = root + "/etc/sluice";
    const bool may = geteuid() == 0 || access(directory.c_str(), W_OK) == 0;
    return {"mkdir -p " + shell_word(directory) + " && printf '[device %s]\\ncoherence = noncoherent\\n' " +
                shell_word(device) + " >>" + shell_word(directory + "/sluice.conf"),
            may ? "" : "root"};
}

void check_device(const std::string& device, const Options& options, Report& report) {
    const sluice_device_attributes attributes = query_device(options, device);
    if (attributes.cpu_coherence.value == SLUICE_COHERENCE_UNKNOWN) {
        report.warn(
            "whether " + device + " sees the CPU's caches is unknown (" + attributes.coherence_evidence +
                "): it is taken for noncoherent, which costs time; say coherent instead if its maker does",
            say_noncoherent(device, options.root));
        return;
    }
    const std::string text = sluice_coherence_name(attributes.cpu_coherence.value);
    report.ok(device + ": memory is " + text);
}

} // namespace

void check_coherence(const Options& options, Report& report) {
    for (const std::string& device : device_names(options)) {
        check_device(device, options, report);
    }
}

} // namespace sluice::tools::doctor
