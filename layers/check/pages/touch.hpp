// SPDX-License-Identifier: BSD-3-Clause
//
// What a request forbids, and an access that it has forbidden.
#pragma once

#include <cstdint>

#include "core/report/stack.hpp"

namespace sluice::layers::check::pages {

enum class Forbidden : std::uint8_t { kStores, kEverything };

struct Touch {
    std::uint64_t tag = 0;
    const void* address = nullptr;
    bool is_store = false;
    bool is_known_kind = false; // the fault told a load from a store
    report::Stack stack;
};

} // namespace sluice::layers::check::pages
