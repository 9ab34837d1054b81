// SPDX-License-Identifier: BSD-3-Clause
//
// A lane: two processes that do one step after the other with each other, beside other lanes. The leader
// lives as long as the lane; its partner until it is killed.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/soak/record.hpp"

namespace sluice::test::soak {

// Every process keeps its devices at the near ones, which may be those of all lanes, and opens others at the
// far ones.
struct Addresses {
    std::array<std::string, 2> near{};
    std::array<std::string, 2> far{};
};

struct LanePlan {
    std::uint64_t seed = 0;
    unsigned stride = 1;      // from one of its steps to the next
    bool is_one_step = false; // and no more
    bool is_spoiled = false;  // one byte that the partner has written is changed, which must not go unnoticed
    Addresses addresses{};
    std::vector<std::string> programs{}; // commands for the shell
};

// Until the end is asked for. Doesn't return.
[[noreturn]] void lead(const LanePlan& plan, Shared& shared, LaneRecord& record);
// The other process: until the leader closes FD.
[[noreturn]] void accompany(int fd);

} // namespace sluice::test::soak
