// SPDX-License-Identifier: BSD-3-Clause
//
// Which provider drives each device in an ordinary program, and whether our own can; see
// provider_probe.c.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace sluice::tools {

struct Probed {
    std::string path; // the provider's file; empty when the device could not be opened
    int os_errno = 0; // why it could not
};

// Whether the plugin lies where a libibverbs under ROOT finds it. To name it when it doesn't makes
// libibverbs warn in every program.
bool plugin_is_installed(const std::string& root);

// Why the plugin that is installed here takes no device, in its own words or the dynamic linker's;
// nothing when it can work, or isn't installed. Throws as the next one does.
std::optional<std::string> why_plugin_declines();

// The dynamic linker's reason why a program can't load LIBRARY; empty: it can.
std::string why_not_loaded(const std::string& library);

// By device. A device that libibverbs doesn't list has no provider. Throws a Failure when the
// helper can't be run.
std::map<std::string, Probed> probe_providers();

} // namespace sluice::tools
