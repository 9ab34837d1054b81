// SPDX-License-Identifier: BSD-3-Clause
#include "provider/rxe/header_places.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace sluice::provider::rxe {

std::unique_ptr<HeaderPlaces> HeaderPlaces::make(std::uint32_t requests, std::uint32_t completions) noexcept {
    constexpr std::uint32_t kMost = 1U << 20; // more than the kernel lets a queue have
    const std::uint32_t count = std::bit_ceil(std::min(requests, kMost) + std::min(completions, kMost));
    std::unique_ptr<HeaderPlaces> places(new (std::nothrow) HeaderPlaces);
    if (places == nullptr) {
        return nullptr;
    }
    places->places_.reset(new (std::nothrow) Place[count]);
    if (places->places_ == nullptr) {
        return nullptr;
    }
    places->mask_ = count - 1;
    return places;
}

void HeaderPlaces::note(const ibv_recv_wr& wr) noexcept {
    const std::uint32_t at = noted_.load(std::memory_order_relaxed);
    Place& place = places_[at & mask_];
    place.wr_id.store(wr.wr_id, std::memory_order_relaxed);
    const bool long_enough = wr.num_sge > 0 && wr.sg_list->length >= kBytesLookedAt;
    place.address.store(long_enough ? wr.sg_list->addr : 0, std::memory_order_relaxed);
    noted_.store(at + 1, std::memory_order_release);
}

std::uint64_t HeaderPlaces::find(std::uint64_t wr_id) noexcept {
    const std::uint32_t noted = noted_.load(std::memory_order_acquire);
    const std::uint32_t kept = std::min(noted - found_, mask_ + 1);
    for (std::uint32_t at = noted - kept; at != noted; ++at) {
        const Place& place = places_[at & mask_];
        if (place.wr_id.load(std::memory_order_relaxed) == wr_id) {
            found_ = at + 1;
            return place.address.load(std::memory_order_relaxed);
        }
    }
    return 0;
}

} // namespace sluice::provider::rxe
