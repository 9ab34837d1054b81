// SPDX-License-Identifier: BSD-3-Clause
//
// What the coherence engine of our own libraries asks for by name (core/coherence/power.hpp).
#include "core/coherence/power.hpp"

#include "layers/power/device_writes.hpp"
#include "layers/power/pending.hpp"
#include "layers/power/simulation.hpp"

using sluice::coherence::Range;
using sluice::layers::power::Simulation;

extern "C" {
#pragma GCC visibility push(default)

void sluice_power_persist(const Range* ranges, std::uint64_t count) noexcept {
    for (std::uint64_t i = 0; i < count; ++i) {
        sluice::layers::power::flush_range(ranges[i]);
    }
    sluice::layers::power::drain("persistent clean");
}

int sluice_power_covers(const void* address, std::uint64_t length) noexcept {
    return sluice::layers::power::is_simulated({reinterpret_cast<std::uintptr_t>(address), length}) ? 1 : 0;
}

int sluice_power_passes_caches() noexcept {
    const Simulation* const simulation = Simulation::find();
    return simulation != nullptr && simulation->is_ddio_off() ? 1 : 0;
}

void sluice_power_written(const Range* range) noexcept {
    sluice::layers::power::note_device_write(*range);
}

void sluice_power_push() noexcept {
    sluice::layers::power::push_device_writes();
}

#pragma GCC visibility pop
} // extern "C"
