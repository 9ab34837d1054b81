// SPDX-License-Identifier: BSD-3-Clause
//
// <sluice/sluice.h> for C++: the loops and the error texts in one place.
#pragma once

#include <sluice/sluice.h>

#include <string>
#include <utility>
#include <vector>

#include "tools/output.hpp"

namespace sluice::tools {

// Collects the library's log: what explains an error becomes the text of a Failure, the rest goes
// to standard error.
void listen_to_library();

// While one lives, what would go to standard error is kept.
class KeptWarnings {
  public:
    KeptWarnings();
    ~KeptWarnings();
    KeptWarnings(const KeptWarnings&) = delete;
    KeptWarnings& operator=(const KeptWarnings&) = delete;

    // Each as "area: message".
    const std::vector<std::string>& texts() const noexcept { return texts_; }
    void add(std::string text) { texts_.push_back(std::move(text)); }

  private:
    std::vector<std::string> texts_;
};

std::vector<std::string> device_names(const Options& options);
// Those without a kernel; none on another machine than this.
std::vector<sluice_uroce_device> uroce_devices(const Options& options);
sluice_device_attributes query_device(const Options& options, const std::string& name);
std::vector<sluice_attribute_description> describe(const sluice_device_attributes& attributes);

using NamedCounters = std::vector<std::pair<std::string, std::uint64_t>>;

// A queue pair that exists, or existed when its process ended.
struct UroceQueuePair {
    std::uint32_t qpn;
    std::uint32_t peer_qpn; // 0: it has no peer
    std::string type;
    std::string state;
    std::string local;  // empty: it has no address yet
    std::string remote; // empty: it has no peer
    NamedCounters counters;
};

// What a uroce device has counted in one process.
struct UroceUse {
    std::string device;
    std::string address;
    std::string command;
    std::int64_t pid;
    bool is_running;
    std::uint64_t opened_ns;
    NamedCounters counters;
    std::vector<UroceQueuePair> queue_pairs; // by number
};
std::vector<UroceUse> uroce_uses();

// All that can be set; a sluice.conf that can't be understood ends the command.
std::vector<sluice_setting> settings(const Options& options);
// With what is set and isn't understood, or isn't known.
std::vector<sluice_setting> settings_and_problems(const Options& options);

// The setting of that name; empty when there is none.
std::string setting_value(const std::vector<sluice_setting>& settings, const std::string& name);
std::string setting_origin(const std::vector<sluice_setting>& settings, const std::string& name);

} // namespace sluice::tools
