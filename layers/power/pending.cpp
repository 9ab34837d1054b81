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

// What WORK(simulation) gives; false where nothing is simulated.
template<typename Work>
bool ask(Work&& work) noexcept {
    Simulation* const simulation = Simulation::find();
    if (simulation == nullptr) {
        return false;
    }
    const int former_errno = errno;
    const Undisturbed undisturbed;
    const Result<bool> done = at_boundary("power", [&]() -> Result<bool> { return work(*simulation); });
    if (!done) {
        SLUICE_LOG(kError, "power", "memory that was flushed isn't simulated: %s", done.error().text());
    }
    errno = former_errno;
    return done && *done;
}

} // namespace

bool is_simulated(coherence::Range range) noexcept {
    return ask([&](Simulation& simulation) { return simulation.covers(range); });
}

bool flush_range(coherence::Range range) noexcept {
    return ask([&](Simulation& simulation) {
        if (!simulation.touches(range)) {
            return false;
        }
        Looks looks = simulation.look_at({range});
        flushed.insert(flushed.end(), std::make_move_iterator(looks.begin()),
                       std::make_move_iterator(looks.end()));
        return true;
    });
}

bool persist_range(coherence::Range range, const char* call) noexcept {
    const bool is_simulated = flush_range(range);
    if (is_simulated) {
        drain(call);
    }
    return is_simulated;
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
