// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/device_writes.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "core/sync.hpp"
#include "layers/power/simulation.hpp"
#include "layers/power/undisturbed.hpp"

namespace sluice::layers::power {

namespace {

constinit Mutex mutex;
constinit std::vector<coherence::Range> on_their_way SLUICE_TSA(guarded_by(mutex));

// A long Write comes in many packets.
void add_locked(coherence::Range range) SLUICE_TSA(requires_capability(mutex)) {
    coherence::Range* const last = on_their_way.empty() ? nullptr : &on_their_way.back();
    if (last != nullptr && last->address <= range.address && range.address <= last->address + last->length) {
        last->length = std::max(last->length, range.address + range.length - last->address);
    } else {
        on_their_way.push_back(range);
    }
}

} // namespace

void note_device_write(coherence::Range range) noexcept {
    const Simulation* const simulation = Simulation::find();
    const int former_errno = errno;
    const Undisturbed undisturbed;
    const Result<void> noted = at_boundary("note_device_write", [&]() -> Result<void> {
        if (simulation != nullptr && simulation->touches(range)) {
            const LockGuard guard(mutex);
            add_locked(range);
        }
        return {};
    });
    if (!noted) {
        SLUICE_LOG(kError, "power", "a peer's write isn't simulated: %s", noted.error().text());
    }
    errno = former_errno;
}

void push_device_writes() noexcept {
    const Undisturbed undisturbed;
    std::vector<coherence::Range> pushed;
    {
        const LockGuard guard(mutex);
        pushed.swap(on_their_way);
    }
    if (!pushed.empty()) {
        Simulation* const simulation = Simulation::find();
        simulation->persist(simulation->look_at(pushed), "Read behind Writes");
    }
}

} // namespace sluice::layers::power
