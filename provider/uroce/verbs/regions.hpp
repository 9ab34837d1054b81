// SPDX-License-Identifier: BSD-3-Clause
//
// How memory of every kind becomes a region.
#pragma once

#include <memory>

#include "provider/uroce/roce.hpp"
#include "provider/uroce/verbs/objects.hpp"

namespace sluice::uroce::verbs {

struct Range {
    std::uint64_t host_addr;
    std::uint64_t iova;
    std::size_t len_bytes;
    unsigned access;
};

// Null with errno set. The region is one of the program's own memory, unless the caller says more.
std::unique_ptr<MemoryRegion> make_region(ibv_pd* pd, const Range& range) noexcept;

} // namespace sluice::uroce::verbs
