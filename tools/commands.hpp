// SPDX-License-Identifier: BSD-3-Clause
//
// One function for each subcommand. Each prints to standard output and gives the exit status, or
// throws a Failure.
#pragma once

#include <string>

#include "tools/output.hpp"

namespace sluice::tools {

ExitStatus run_devices(const Options& options);
ExitStatus run_info(const Options& options, const std::string& device);
ExitStatus run_config(const Options& options);
ExitStatus run_provider_status(const Options& options);
ExitStatus run_provider_enable(const Options& options, bool force);
ExitStatus run_provider_disable(const Options& options);

} // namespace sluice::tools
