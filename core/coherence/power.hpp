// SPDX-License-Identifier: BSD-3-Clause
//
// Memory behind which the power can be cut, simulated: `sluice persist run` sets SLUICE_PERSISTENCE and
// preloads a library that knows which lines survive (ADR 105). Whatever cleans to where data survives has to
// tell it, in whichever of our libraries that is: each has an engine of its own, so the one simulation of a
// process is found by name.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/coherence/segment.hpp"
#include "core/result.hpp"

extern "C" {
// All are the preloaded library's. The first is a step of the simulation: RANGES survive from now on. The
// second: whether all of a range is of simulated files. The others are for devices whose writes go past the
// caches, if the third says that they do: one has written a range; what they have written is pushed to
// memory, a step, too.
void sluice_power_persist(const sluice::coherence::Range* ranges, std::uint64_t count) noexcept;
int sluice_power_covers(const void* address, std::uint64_t length) noexcept;
int sluice_power_passes_caches() noexcept;
void sluice_power_written(const sluice::coherence::Range* range) noexcept;
void sluice_power_push() noexcept;
}

namespace sluice::coherence {

// Whether SLUICE_PERSISTENCE is set. An error where nothing is there that simulates: what is cleaned for
// persistence would be taken for durable.
Result<bool> is_power_simulated();

// Needs that to be true.
void persist_in_simulation(const Range* ranges, std::uint64_t count) noexcept;

// Whether LENGTH bytes at ADDRESS are simulated memory that lasts.
bool is_simulated_persistent(const void* address, std::size_t length) noexcept;

// Whether what devices write goes past the caches in the simulation, as with DDIO switched off. It is durable
// once a Read has pushed it.
bool do_device_writes_pass_caches() noexcept;
// Need that to be true. A device has written RANGE; a peer reads.
void note_device_write(Range range) noexcept;
void push_device_writes() noexcept;

} // namespace sluice::coherence
