// SPDX-License-Identifier: BSD-3-Clause
//
// Which reports are shown, and how many there were.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tools/check/report.hpp"
#include "tools/check/suppressions.hpp"

namespace sluice::tools::check {

class Tally {
  public:
    // LIMIT: so many reports are shown for one place.
    Tally(Suppressions suppressions, std::size_t limit);

    // Whether REPORT is to be shown: nobody has suppressed it, and it is new.
    bool add(const Report& report);
    // Whether nobody has heard of it before.
    bool add_blind_spot(const std::string& text);

    bool has_mistakes() const noexcept { return !shown_.empty(); }
    // What is said at the end: nothing where nothing was found, and everything looked at.
    std::string text() const;
    nlohmann::json json() const;

  private:
    bool is_empty() const noexcept { return shown_.empty() && suppressed_ == 0; }
    std::string text_of_counts() const;

    struct Shown {
        std::string rule;
        std::string place;
        std::size_t again = 0;  // with the same stacks
        std::size_t others = 0; // at the same place, with other stacks, that the limit hides
    };

    Suppressions suppressions_;
    const std::size_t limit_;
    std::vector<Shown> shown_;
    std::map<std::string, std::size_t> by_key_; // indices into shown_
    std::map<std::string, std::vector<std::size_t>> by_place_;
    std::size_t bytes_ = 0; // of keys
    std::set<std::string> kinds_;
    std::size_t suppressed_ = 0;
    std::size_t too_many_ = 0; // to remember which they were
    std::set<std::string> blind_spots_;
};

} // namespace sluice::tools::check
