// SPDX-License-Identifier: BSD-3-Clause
//
// What the bytes of a counters' file mean. They are a stranger's: any may be given, of any number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace sluice::uroce::device {

using NamedCounters = std::vector<std::pair<std::string, std::uint64_t>>;

// A queue pair that exists, or existed when its process ended.
struct QueuePairUse {
    std::uint32_t qpn = 0;
    std::string type;  // "RC"; "?" is one that this version doesn't know
    std::string state; // "RTS"
    std::string local; // empty: it has no address yet
    std::string remote;
    std::uint32_t peer_qpn = 0; // 0: it has no peer
    NamedCounters counters;
};

// One device in one process.
struct DeviceUse {
    std::string device;
    std::string address;
    NamedCounters counters;
    std::vector<QueuePairUse> queue_pairs; // by number
};

struct ProcessUse {
    std::int64_t pid = 0;
    bool is_running = false;
    std::uint64_t opened_ns = 0; // since 1970
    std::string command;
    std::vector<DeviceUse> devices;
};

// The two parts of a file, which is empty for the most part, as far as something is in each.
struct CounterBytes {
    std::span<const std::uint8_t> rooms; // from the file's beginning
    std::span<const std::uint8_t> rows;  // from their head on; none: this version knows none
};
CounterBytes parts_of(std::span<const std::uint8_t> file) noexcept;

// A room for each device summed up; which process runs isn't in it.
Result<ProcessUse> parse_counters(const CounterBytes& bytes);

} // namespace sluice::uroce::device
