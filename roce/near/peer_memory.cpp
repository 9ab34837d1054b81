// SPDX-License-Identifier: BSD-3-Clause
#include "roce/near/peer_memory.hpp"

#include "roce/near/slice.hpp"

namespace sluice::roce::near {

bool PeerMemory::write_in_order(std::uint64_t to, std::span<const iovec> from, std::size_t first,
                                std::size_t last) noexcept {
    return write(to, Slice(from, 0, first).pieces(), first) &&
           write(to + first, Slice(from, first, last).pieces(), last);
}

} // namespace sluice::roce::near
