// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/power.hpp"

#include <dlfcn.h>

#include "core/settings.hpp"

namespace sluice::coherence {

namespace {

struct Power {
    decltype(&sluice_power_persist) persist = nullptr;
    decltype(&sluice_power_covers) covers = nullptr;
    decltype(&sluice_power_passes_caches) passes_caches = nullptr;
    decltype(&sluice_power_written) written = nullptr;
    decltype(&sluice_power_push) push = nullptr;
};

template<typename Function>
void find(Function*& function, const char* name) noexcept {
    function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

const Power& power() noexcept {
    static const Power found = [] {
        Power there;
        if (setting_value(Setting::kPersistence) != nullptr) {
            find(there.persist, "sluice_power_persist");
            find(there.covers, "sluice_power_covers");
            find(there.passes_caches, "sluice_power_passes_caches");
            find(there.written, "sluice_power_written");
            find(there.push, "sluice_power_push");
        }
        return there;
    }();
    return found;
}

} // namespace

Result<bool> is_power_simulated() {
    if (setting_value(Setting::kPersistence) == nullptr) {
        return false;
    }
    if (power().persist == nullptr) {
        return Error(
            ErrorKind::kNotSupported,
            "SLUICE_PERSISTENCE is set, and nothing is preloaded that simulates; let `sluice persist "
            "run` start the program, or unset it");
    }
    return true;
}

void persist_in_simulation(const Range* ranges, std::uint64_t count) noexcept {
    if (auto* const persist = power().persist; persist != nullptr) {
        persist(ranges, count);
    }
}

bool is_simulated_persistent(const void* address, std::size_t length) noexcept {
    auto* const covers = power().covers;
    return covers != nullptr && covers(address, length) != 0;
}

bool do_device_writes_pass_caches() noexcept {
    auto* const passes_caches = power().passes_caches;
    return passes_caches != nullptr && passes_caches() != 0;
}

void note_device_write(Range range) noexcept {
    if (auto* const written = power().written; written != nullptr) {
        written(&range);
    }
}

void push_device_writes() noexcept {
    if (auto* const push = power().push; push != nullptr) {
        push();
    }
}

} // namespace sluice::coherence
