// SPDX-License-Identifier: BSD-3-Clause
//
// A word in shared memory by which one side tells another that data is ready, where the two sides' caches
// know nothing of each other.
//
//     producer                                    consumer
//     store the data                              until observe() gives the new value
//     clean() the data, or copy_and_clean()       invalidate() the data
//     publish() the new value                     load the data
//
// One side alone stores to the flag, and its granule holds nothing that the other side stores: what
// observe() drops it writes back first where it is dirty, over the other side's value.
#pragma once

#include <cstdint>

#include "core/coherence/cacheflush.hpp"

namespace sluice::coherence {

// Stores VALUE behind all that this thread has cleaned before, and writes it back. FLAG is aligned.
void publish(const Ops& ops, std::uint64_t* flag, std::uint64_t value) noexcept;

// The value that memory holds. Loads and calls of invalidate() that come later don't pass it.
std::uint64_t observe(const Ops& ops, const std::uint64_t* flag) noexcept;

} // namespace sluice::coherence
