// SPDX-License-Identifier: BSD-3-Clause
//
// Findings that somebody knows of and doesn't want to see: lines RULE:WHERE, in which "*" stands for any
// text. WHERE is a function, a library or program, or a source file of one of the finding's frames; files are
// meant by their path or by their name alone. A line that begins with "#" is a comment.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/check/report.hpp"

namespace sluice::tools::check {

struct Suppression {
    std::string rule;
    std::string where;
    std::size_t used = 0;

    std::string line() const { return rule + ":" + where; }
};

bool matches(std::string_view pattern, std::string_view text);

class Suppressions {
  public:
    Suppressions() = default;
    // NAME is the file's. Throws a Failure that names the first line that is wrong.
    Suppressions(std::istream& lines, const std::string& name);

    // Whether one of them is about REPORT; the first one is used.
    bool cover(const Report& report);
    const std::vector<Suppression>& all() const noexcept { return all_; }

  private:
    std::vector<Suppression> all_;
};

} // namespace sluice::tools::check
