// SPDX-License-Identifier: BSD-3-Clause
//
// Copies into memory that somebody reads behind this CPU's caches.
#pragma once

#include <cstddef>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

// As memcpy() and then clean() of LENGTH bytes at TO, in the way that is faster for that length. The
// ranges don't overlap.
void copy_and_clean(const Ops& ops, void* to, const void* from, std::size_t length) noexcept;

} // namespace sluice::coherence
