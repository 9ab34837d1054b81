// SPDX-License-Identifier: BSD-3-Clause
//
// The checks of `sluice doctor`, each in the file of its subject. A check reports what it finds, and throws a
// Failure where it can't look.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.hpp"
#include "tools/output.hpp"

namespace sluice::tools::doctor {

void check_settings(const Options& options, Report& report);
void check_limits(const Options& options, Report& report);
void check_network(const Options& options, Report& report);
void check_uroce(const Options& options, Report& report);
void check_kernel(const Options& options, Report& report);
void check_loader(const Options& options, Report& report);
void check_same_host(const Options& options, Report& report);
void check_providers(const Options& options, Report& report);
void check_adapters(const Options& options, Report& report);
void check_coherence(const Options& options, Report& report);
void check_clock(const Options& options, Report& report);

// The program that the user wants to run: its file first, then, if nothing stands in its way, what it says.
void check_program(const std::vector<std::string>& command, Report& report);

} // namespace sluice::tools::doctor
