// SPDX-License-Identifier: BSD-3-Clause
//
// From a handle to the functions of the provider that made it, or to the refusal that a handle gets
// that nobody made.
//
// A handle of our own provider lies in a range of addresses that it has told (provider_v1.h): the
// address alone decides, nothing is read, and the provider tells a live handle from a stale one. Any
// other handle is a foreign provider's, if one is registered at all, and DAT gives no other way than
// to read the pointer that it begins with; that must be the table of a registered provider.
//
// Thread safety: everything may be called from any thread at any time. Finding takes no lock. Handles
// of a foreign provider that is being removed are their users' race, as DAT has it.
#pragma once

#include <dat/dat_registry.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "core/result.hpp"
#include "core/sync.hpp"
#include "udapl/registry/provider_v1.h"

namespace sluice::dat {

class Redirection {
  public:
    // For good: such a provider stays.
    Result<void> add_range(const dapl_sluice_v1& provider);
    // TABLE stays known until remove_table() was called as often.
    Result<void> add_table(const DAT_PROVIDER* table);
    void remove_table(const DAT_PROVIDER* table) noexcept;

    // For pthread_atfork(): no other thread is in the middle of the above.
    void lock_for_fork() SLUICE_TSA(acquire_capability(mutex_)) { mutex_.lock(); }
    void unlock_after_fork() SLUICE_TSA(release_capability(mutex_)) { mutex_.unlock(); }

    // The functions for a handle of our own provider, if only one version of it is loaded. Inline and without
    // a call, so that a redirection is one comparison and a jump.
    const DAT_PROVIDER* find_usual(DAT_HANDLE handle) const noexcept {
        return functions_in(ranges_.front(), handle);
    }

    // The functions for a handle of our own provider; null for any other.
    const DAT_PROVIDER* find_own(DAT_HANDLE handle) const noexcept {
        for (const Range& range : ranges_) {
            if (const DAT_PROVIDER* const functions = functions_in(range, handle)) {
                return functions;
            }
        }
        return nullptr;
    }

    // The functions for a handle of somebody else's; null for what can't be one.
    const DAT_PROVIDER* find_foreign(DAT_HANDLE handle) const noexcept;

  private:
    struct Range {
        std::atomic<std::uintptr_t> begin{0};
        std::atomic<std::size_t> size{0};
        std::atomic<const DAT_PROVIDER*> functions{nullptr};
    };

    static const DAT_PROVIDER* functions_in(const Range& range, DAT_HANDLE handle) noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(handle);
        // Partner: the release in add_range(). A range that isn't there has no size.
        const std::size_t size = range.size.load(std::memory_order_acquire);
        return address - range.begin.load(std::memory_order_relaxed) < size
                   ? range.functions.load(std::memory_order_relaxed)
                   : nullptr;
    }

    // Two versions of our provider in one process are imaginable; foreign ones have an entry for
    // each IA name.
    static constexpr std::uint32_t kMaxRanges = 4;
    static constexpr std::uint32_t kMaxTables = 256;

    std::array<Range, kMaxRanges> ranges_{};

    // How many of the tables were ever in use; readers look no further.
    std::atomic<std::uint32_t> table_count_{0};
    std::array<std::atomic<const DAT_PROVIDER*>, kMaxTables> tables_{};

    Mutex mutex_; // for writers
};

} // namespace sluice::dat
