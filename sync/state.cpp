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

bool read_setting() {
    const char* const text = setting_value(Setting::kSyncCheck);
    const std::string_view wanted = text == nullptr ? "" : text;
    const Result<Choice> choice = parse_choice(Setting::kSyncCheck, wanted);
    if (!wanted.empty() && !choice) {
        SLUICE_LOG(kWarning, "sync", "%s: pages aren't checked", choice.error().text());
    }
    return choice && choice->index == 0; // "yes"
}

// SLUICE_SYNC_CHECK, as the first call found it. Never under the mutex, since it may log.
bool is_set() {
    static const bool set = read_setting();
    return set;
}

bool is_checking_locked(bool set) SLUICE_TSA(requires_capability(mutex)) {
    return checking == Checking::kAsSet ? set : checking == Checking::kOn;
}

} // namespace

Result<const Ops*> prepare_ops() {
    warn_about_unknown_settings();
    Result<const Ops*> ops = machine_ops();
    const bool set = is_set();
    const LockGuard guard(mutex);
    if (ops && !is_checking_locked(set)) {
        ready_ops.store(*ops, std::memory_order_release);
    }
    return ops;
}

bool is_checking() noexcept {
    const bool set = is_set();
    const LockGuard guard(mutex);
    return is_checking_locked(set);
}

void set_checking(bool on) noexcept {
    const LockGuard guard(mutex);
    checking = on ? Checking::kOn : Checking::kOff;
    ready_ops.store(nullptr, std::memory_order_release);
}

} // namespace sluice::sync
