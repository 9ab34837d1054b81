// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/device_writes.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "core/sync.hpp"
#include "layers/power/simulation.hpp"
#include "layers/power/undisturbed.hpp"

namespace sluice::layers::power {

namespace {

constinit Mutex mutex;
constinit Parts on_their_way SLUICE_TSA(guarded_by(mutex));

// A long Write comes in many packets.
void add_locked(const Part& part) SLUICE_TSA(requires_capability(mutex)) {
    Part* const last = on_their_way.empty() ? nullptr : &on_their_way.back();
    if (last != nullptr && last->file == part.file && last->offset <= part.offset &&
        part.offset <= last->offset + last->length) {
        last->length = std::max(last->length, part.offset + part.length - last->offset);
    } else {
        on_their_way.push_back(part);
    }
}

} // namespace

void note_device_write(coherence::Range range) noexcept {
    const Simulation* const simulation = Simulation::find();
    const int former_errno = errno;
    const Undisturbed undisturbed;
    const Result<void> noted = at_boundary("note_device_write", [&]() -> Result<void> {
        const Parts parts = simulation != nullptr ? simulation->parts_at(&range, 1) : Parts();
        const LockGuard guard(mutex);
        for (const Part& part : parts) {
            add_locked(part);
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
    Parts pushed;
    {
        const LockGuard guard(mutex);
        pushed.swap(on_their_way);
    }
    if (!pushed.empty()) {
        Simulation::find()->persist(pushed, "Read behind Writes");
    }
}

} // namespace sluice::layers::power
