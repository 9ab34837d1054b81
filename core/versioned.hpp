// SPDX-License-Identifier: BSD-3-Clause
//
// Public structs that grow at their end: the caller says how much of one it knows.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/result.hpp"

namespace sluice {

// Passes a versioned struct to a caller that may know fewer or more fields. WANTED is what the
// caller takes for its size, OLDEST the size that the first version had.
template<typename T>
Result<void> copy_versioned(const T& from, void* to, std::size_t wanted, std::size_t oldest) noexcept {
    constexpr std::size_t kNewest = 1U << 16U; // no version will be that large: a mistaken argument
    if (to == nullptr || wanted < oldest || wanted > kNewest) {
        return Error(ErrorKind::kInvalidArgument,
                     "null, or a size that no version of the struct has: pass sizeof it");
    }
    const std::size_t known = wanted < sizeof from ? wanted : sizeof from;
    std::memcpy(to, &from, known);
    std::memset(static_cast<char*>(to) + known, 0, wanted - known);
    return {};
}

} // namespace sluice
