// SPDX-License-Identifier: BSD-3-Clause
//
// Puts all answers about one device together.
#pragma once

#include <cstring>
#include <string_view>

#include "core/file_tree.hpp"
#include "provider/attributes/live_facts.hpp"
#include "sluice/sluice.h"

namespace sluice::attributes {

// How to reach the device, besides through files; called when it is known that it exists, with
// whether a registration would tell something. May give nothing.
using Asker = std::optional<LiveFacts> (*)(void* context, bool try_registration);

// kNotFound when there is no such device; the errors of the configuration.
Result<sluice_device_attributes> query(const FileTree& tree, std::string_view name, Asker ask, void* context);

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

} // namespace sluice::attributes
