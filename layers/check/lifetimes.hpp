// SPDX-License-Identifier: BSD-3-Clause
//
// Objects that end: whether a device or another object still uses them.
#pragma once

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// Before the call that ends it. It may be refused yet.
void check_end(const Region& region, Place place) noexcept;
void check_end(const AddressHandle& handle, Place place) noexcept;
void check_end(const Queue& queue, Place place) noexcept;

// Before BYTES from FIRST, of the region's memory, are unmapped.
void check_unmapping(const Region& region, std::uint64_t first, std::uint64_t bytes, Place place) noexcept;

// The call was refused because something uses the object.
void tell_busy(const Domain& domain, Place place) noexcept;
void tell_busy(const Region& region, Place place) noexcept;
void tell_busy(const Queue& queue, Place place) noexcept;
void tell_busy(const SharedQueue& queue, Place place) noexcept;
void tell_busy(const Channel& channel, Place place) noexcept;

// The queue pair has ended.
void take_end(QueuePair& pair, Place place) noexcept;
void take_state(QueuePair& pair, ibv_qp_state state) noexcept;

// What is left of a context that is about to be closed.
void check_close(const ibv_context* context, Place place) noexcept;
// What is left when the process ends.
void check_exit() noexcept;

} // namespace sluice::layers::check
