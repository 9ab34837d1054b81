// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace sluice::provider {

// What a request moves. In 32 bits the sum could wrap.
inline std::uint64_t total_length(const ibv_sge* list, std::uint32_t count) noexcept {
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        total += list[i].length;
    }
    return total;
}

} // namespace sluice::provider
