// SPDX-License-Identifier: BSD-3-Clause
//
// The directory in which traced processes leave their files. Nobody else's may enter it, and it goes with its
// owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/scratch.hpp"
#include "tools/trace/recording.hpp"

namespace sluice::tools::trace {

class TraceFolder {
  public:
    // Absolute.
    const std::string& path() const noexcept { return folder_.path(); }
    // Of each process, of no more than MOST_BLOCKS blocks, in the order of their first events.
    std::vector<Recording> recordings(std::uint32_t most_blocks) const;

  private:
    const ScratchFolder folder_{"trace", "sluice-trace", "recordings"};
};

} // namespace sluice::tools::trace
