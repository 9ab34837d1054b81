// SPDX-License-Identifier: BSD-3-Clause
//
// Names and lines for return addresses, from addr2line of binutils: one child for each file, which is asked
// again and again. A child that doesn't answer in time is ended. Without addr2line there is what was
// recorded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/check/record.hpp"
#include "tools/check/report.hpp"
#include "tools/running_command.hpp"

namespace sluice::tools::check {

class Addr2Line;

class Symbols {
  public:
    // While an answer is waited for, COMMAND gets its signals.
    explicit Symbols(RunningCommand& command);
    ~Symbols();
    Symbols(const Symbols&) = delete;
    Symbols& operator=(const Symbols&) = delete;

    Report named(const Finding& finding);
    // Whether addr2line was wanted and isn't there.
    bool lacks_addr2line() const noexcept { return lacks_addr2line_; }

  private:
    const std::vector<Place>& places_of(const Frame& frame);
    std::vector<Place> find_places(const Frame& frame);
    std::string answer_for(const Frame& frame);
    Addr2Line* child_for(const std::string& module);

    RunningCommand& command_;
    std::map<std::string, std::unique_ptr<Addr2Line>> children_; // by file; null: of no use
    std::map<std::pair<std::string, std::uint64_t>, std::vector<Place>> known_;
    std::size_t started_ = 0;
    std::size_t silent_ = 0; // that didn't answer in time
    bool lacks_addr2line_ = false;
};

} // namespace sluice::tools::check
