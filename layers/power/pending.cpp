// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/pending.hpp"

#include <pthread.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "layers/power/simulation.hpp"
#include "layers/power/undisturbed.hpp"

namespace sluice::layers::power {

namespace {

thread_local Looks flushed;

// A child doesn't drain what its parent has flushed: that was another thread.
[[gnu::constructor]] void forget_in_children() noexcept {
    pthread_atfork(nullptr, nullptr, [] { flushed.clear(); });
}

// What WORK(simulation, parts) gives, if something of RANGE is simulated.
template<typename Work>
bool with_parts(coherence::Range range, Work&& work) noexcept {
    Simulation* const simulation = Simulation::find();
    if (simulation == nullptr) {
        return false;
    }
    const int former_errno = errno;
    const Undisturbed undisturbed;
    const Result<bool> done = at_boundary("with_parts", [&]() -> Result<bool> {
        const Parts parts = simulation->parts_at(&range, 1);
        if (!parts.empty()) {
            work(*simulation, parts);
        }
        return !parts.empty();
    });
    if (!done) {
        SLUICE_LOG(kError, "power", "a flush isn't simulated: %s", done.error().text());
    }
    errno = former_errno;
    return done && *done;
}

} // namespace

bool flush_range(coherence::Range range) noexcept {
    return with_parts(range, [](Simulation& simulation, const Parts& parts) {
        Looks looks = simulation.look_at(parts);
        flushed.insert(flushed.end(), std::make_move_iterator(looks.begin()),
                       std::make_move_iterator(looks.end()));
    });
}

bool persist_range(coherence::Range range, const char* call) noexcept {
    return flush_range(range) && drain(call);
}

bool drain(const char* call) noexcept {
    if (flushed.empty()) {
        return false;
    }
    const Undisturbed undisturbed;
    Simulation::find()->persist(std::exchange(flushed, {}), call);
    return true;
}

} // namespace sluice::layers::power
