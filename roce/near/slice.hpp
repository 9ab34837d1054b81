// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <span>

#include "roce/engine/types.hpp"

namespace sluice::roce::near {

// A part of a list of pieces. Its room is that of the longest list.
class Slice {
  public:
    Slice(std::span<const iovec> pieces, std::size_t offset, std::size_t len_bytes) noexcept {
        for (const iovec& piece : pieces) {
            if (len_bytes == 0) {
                break;
            }
            if (offset >= piece.iov_len) {
                offset -= piece.iov_len;
                continue;
            }
            const std::size_t part = std::min(piece.iov_len - offset, len_bytes);
            pieces_[count_++] = {.iov_base = static_cast<char*>(piece.iov_base) + offset, .iov_len = part};
            len_bytes -= part;
            offset = 0;
        }
    }
    std::span<const iovec> pieces() const noexcept { return {pieces_.data(), count_}; }

  private:
    std::array<iovec, engine::kMaxSge> pieces_;
    std::size_t count_ = 0;
};

} // namespace sluice::roce::near
