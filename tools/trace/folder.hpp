// SPDX-License-Identifier: BSD-3-Clause
//
// The directory in which traced processes leave their files. Nobody else's may enter it, and it goes with its
// owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/recording.hpp"

namespace sluice::tools::trace {

class TraceFolder {
  public:
    // Throws a Failure where none can be made.
    TraceFolder();
    ~TraceFolder();
    TraceFolder(const TraceFolder&) = delete;
    TraceFolder& operator=(const TraceFolder&) = delete;

    // Absolute.
    const std::string& path() const noexcept { return path_; }
    // Of each process, of no more than MOST_BLOCKS blocks, in the order of their first events.
    std::vector<Recording> recordings(std::uint32_t most_blocks) const;

  private:
    std::string path_;
};

} // namespace sluice::tools::trace
