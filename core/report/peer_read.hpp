// SPDX-License-Identifier: BSD-3-Clause
//
// What processes that `sluice check` looks at tell each other: what one has read of another one's memory by
// RDMA. A device reads without a word to the process that owns the memory. So the reader tells it, in the
// file that SLUICE_CHECK names, between the findings; readers of findings pass over it:
//
//     peer-read PID NUMBER FIRST LAST POSTED ADDRESS    of the queue pair with that number and address
//     peer-frame 0x1a2b main /path/of/program           where it was posted, as frames of a finding
//     peer-end
//
// Thread safety: write() may be called from any thread, one object of the others from one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/report/peer_read_parser.hpp"
#include "core/report/stack.hpp"

namespace sluice::report {

// READ has completed; it was posted at STACK, and gets the frames of that. Of many only the first are told.
void write(const PeerRead& read, const Stack& stack) noexcept;

// Of other processes, each once.
class PeerReads {
  public:
    // What has come since the last call.
    std::vector<PeerRead> take();

  private:
    std::uint64_t at_ = 0; // in the file
    PeerReadParser parser_;
    std::array<char, 16384> bytes_; // programs have threads with small stacks
};

} // namespace sluice::report
