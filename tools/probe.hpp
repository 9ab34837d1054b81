// SPDX-License-Identifier: BSD-3-Clause
//
// Which provider drives each device in an ordinary program; see provider_probe.c.
#pragma once

#include <map>
#include <string>

namespace sluice::tools {

struct Probed {
    std::string path; // the provider's file; empty when the device could not be opened
    int os_errno = 0; // why it could not
};

// By device. A device that libibverbs doesn't list has no provider. Throws a Failure when the
// helper can't be run.
std::map<std::string, Probed> probe_providers();

} // namespace sluice::tools
