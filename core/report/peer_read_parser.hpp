// SPDX-License-Identifier: BSD-3-Clause
//
// Records of what one process has read of another one's memory (core/report/peer_read.hpp).
//
// Thread safety: one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/file/words.hpp"

namespace sluice::report {

// The words of its lines; the prefix goes in front of a finding's "frame".
inline constexpr std::string_view kReadWord = "peer-read";
inline constexpr std::string_view kFramePrefix = "peer-";
inline constexpr std::string_view kEndWord = "peer-end";

struct PeerRead {
    std::uint32_t number = 0; // of the peer's queue pair; its process has the memory
    std::string address;      // of its device
    std::uint64_t first = 0;  // byte, as that process has it, and the last one
    std::uint64_t last = 0;
    std::uint64_t posted_ns = 0; // CLOCK_MONOTONIC
    std::string frames;          // where, as frames_of() gives them
};

// Reads such records, piece by piece. Anything may stand there: what isn't whole is none.
class PeerReadParser {
  public:
    // What has become whole by BYTES, but for those of process ITSELF.
    std::vector<PeerRead> feed(std::string_view bytes, pid_t itself);

  private:
    // Whether the record is whole with LINE.
    bool take_line(std::string_view line);

    file::LineReader lines_;
    std::optional<PeerRead> record_;
    std::int64_t process_ = 0;
};

} // namespace sluice::report
