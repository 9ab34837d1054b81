// SPDX-License-Identifier: BSD-3-Clause
//
// What the kernel has for a port in counters/ and hw_counters/, for monitors that read these: names of the
// standard's, of rdma_rxe's and of adapters', as far as uroce counts the same. A port's number is the sum
// over all processes of this user that have the device open or had, as `sluice stat` has them.
//
// The kernel looks at a device's counters every 10 ms at most; so does this.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace sluice::layers::preload {

struct PortCounter {
    const char* file; // "hw_counters/sent_pkts"
    // Those of uroce's counters that begin with one of these words and end so are added up.
    const char* begin;
    const char* end = "";
    unsigned bytes_each = 1; // the standard counts data in words of four bytes
};

std::span<const PortCounter> port_counters() noexcept;

// Whether PATH, below a port's directory, is one of these files or their directories.
bool is_of_port_counters(std::string_view path) noexcept;

// Of the port of one device, in a directory below which these files are to be written or are.
class PortCounterFiles {
  public:
    // Anew, if they are older than they may be. FOLDER is the port's, below DIRECTORY, and without a slash at
    // its end. False: they can't be written.
    bool refresh(int directory, const std::string& folder, const std::string& device,
                 const std::string& address);

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point written_ = Clock::time_point::min();
};

} // namespace sluice::layers::preload
