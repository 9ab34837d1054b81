// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/flag.hpp"

#include <atomic>

namespace sluice::coherence {

void publish(const Ops& ops, std::uint64_t* flag, std::uint64_t value) noexcept {
    if (ops.flags != nullptr) [[unlikely]] {
        ops.flags->before_publish(ops, flag);
    }
    // Also what other cleans than ours have issued, and stores past the caches.
    issue(ops.after_clean, ops);
    // Partner: the load in observe(), on a host with caches of its own or on this one.
    std::atomic_ref(*flag).store(value, std::memory_order_release);
    clean(ops, reinterpret_cast<std::uintptr_t>(flag), sizeof *flag);
    if (ops.flags != nullptr) [[unlikely]] {
        ops.flags->after_publish(ops, flag, value);
    }
}

std::uint64_t observe(const Ops& ops, const std::uint64_t* flag) noexcept {
    if (ops.flags != nullptr) [[unlikely]] {
        ops.flags->before_observe(ops);
    }
    invalidate(ops, reinterpret_cast<std::uintptr_t>(flag), sizeof *flag);
    // Partner: the store in publish(). A load of the builtin, since atomic_ref takes no const before C++26.
    const std::uint64_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
    if (ops.flags != nullptr) [[unlikely]] {
        ops.flags->after_observe(ops, flag, value);
    }
    return value;
}

} // namespace sluice::coherence
