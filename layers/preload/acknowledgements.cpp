// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/acknowledgements.hpp"

#include <cstdint>
#include <unordered_map>

#include "core/sync.hpp"

namespace sluice::layers::preload {

namespace {

struct Acknowledgements {
    Mutex mutex;
    ConditionVariable changed;
    std::unordered_map<const Id*, std::uint32_t> missing SLUICE_TSA(guarded_by(mutex));
};

// Lives until the process ends: destructors of others may still call.
Acknowledgements& acknowledgements() {
    static Acknowledgements& instance = *new Acknowledgements();
    return instance;
}

} // namespace

void taken(const Id& id) {
    Acknowledgements& all = acknowledgements();
    const LockGuard guard(all.mutex);
    ++all.missing[&id];
}

void acknowledged(const Id& id) {
    Acknowledgements& all = acknowledgements();
    const LockGuard guard(all.mutex);
    if (--all.missing[&id] == 0) {
        all.missing.erase(&id);
        all.changed.notify_all();
    }
}

void await_acknowledgements(const Id& id) {
    Acknowledgements& all = acknowledgements();
    const LockGuard guard(all.mutex);
    while (all.missing.contains(&id)) {
        all.changed.wait(all.mutex);
    }
}

} // namespace sluice::layers::preload
