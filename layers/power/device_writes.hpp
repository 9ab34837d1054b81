// SPDX-License-Identifier: BSD-3-Clause
//
// What devices have written past the caches, on its way to memory: a Read pushes all of it there. That is so
// for hardware with DDIO switched off, where a Read can't overtake a Write on its way through PCI Express.
//
// Thread safety: all of it, from any thread.
#pragma once

#include "core/coherence/segment.hpp"

namespace sluice::layers::power {

void note_device_write(coherence::Range range) noexcept;
// A step, if something of simulated files was on its way.
void push_device_writes() noexcept;

} // namespace sluice::layers::power
