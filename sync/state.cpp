// SPDX-License-Identifier: BSD-3-Clause
#include "sync/state.hpp"

#include <string_view>

#include "core/log.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"

namespace sluice::sync {

std::atomic<const Ops*> ready_ops{nullptr};

namespace {

enum class Checking : unsigned char { kAsSet, kOff, kOn };

// Under it, checking and ready_ops change together.
constinit Mutex mutex;
constinit Checking checking SLUICE_TSA(guarded_by(mutex)) = Checking::kAsSet;

bool is_checking_locked() SLUICE_TSA(requires_capability(mutex)) {
    if (checking == Checking::kAsSet) {
        const char* const wanted = setting_value(Setting::kSyncCheck);
        checking = wanted != nullptr && std::string_view(wanted) == "yes" ? Checking::kOn : Checking::kOff;
    }
    return checking == Checking::kOn;
}

} // namespace

Result<const Ops*> prepare_ops() {
    warn_about_unknown_settings();
    Result<const Ops*> ops = coherence::native_ops();
    const LockGuard guard(mutex);
    if (ops && !is_checking_locked()) {
        ready_ops.store(*ops, std::memory_order_release);
    }
    return ops;
}

bool is_checking() noexcept {
    const LockGuard guard(mutex);
    return is_checking_locked();
}

void set_checking(bool on) noexcept {
    const LockGuard guard(mutex);
    checking = on ? Checking::kOn : Checking::kOff;
    ready_ops.store(nullptr, std::memory_order_release);
}

} // namespace sluice::sync
