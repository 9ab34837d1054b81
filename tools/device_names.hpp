// SPDX-License-Identifier: BSD-3-Clause
//
// What programs for DAT call a device without any dat.conf: its own name, its network interface's, or an IP
// address there.
#pragma once

#include <string>

#include "tools/output.hpp"

namespace sluice::tools {

// The device that NAME means, unless that is DEVICE; empty: none.
std::string other_device_called(const std::string& name, const Options& options, const std::string& device);

} // namespace sluice::tools
