// SPDX-License-Identifier: BSD-3-Clause
//
// A command whose coherence timeline is recorded: where to, and what is made of it when the command has
// ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/check/findings_file.hpp"
#include "tools/check/symbols.hpp"
#include "tools/check/timeline_page.hpp"
#include "tools/commands.hpp"
#include "tools/output_file.hpp"

namespace sluice::tools::check {

class TimelineRun {
  public:
    // Opens what is to be written. Throws a Failure.
    explicit TimelineRun(const CheckOptions& how);

    // What the command's environment needs.
    void add_settings(std::vector<std::string>& settings) const;
    // Reads what was recorded, however the command has ended.
    void write(Symbols& symbols, const std::string& command);
    // Throws a Failure where something couldn't be written.
    void finish();

  private:
    const std::uint32_t events_;
    FindingsFile file_;
    std::optional<OutputFile> page_;
    std::optional<OutputFile> json_;
};

} // namespace sluice::tools::check
