// SPDX-License-Identifier: BSD-3-Clause
//
// From an LMR's context to the LMR, for calls that need more of it than a region table has.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/coherence/region_table.hpp"
#include "core/sync.hpp"
#include "udapl/provider/object.hpp"

namespace sluice::dapl {

class Lmr;

class LmrIndex {
  public:
    // As long as CONTEXT is live.
    void set(std::uint32_t context, Lmr* lmr);
    void clear(std::uint32_t context) noexcept;
    // Keeps it from being freed; empty where no LMR has that context. T is Lmr, which this file needn't know.
    template<typename T = Lmr>
    Ref<T> hold(std::uint32_t context) noexcept {
        const LockGuard guard(lock_);
        // An LMR that is destroyed clears its slot first: until then it is whole.
        T* const lmr = find_locked(context);
        return Ref<T>(lmr != nullptr && lmr->context() == context ? lmr : nullptr);
    }

  private:
    static constexpr std::uint32_t kPageBits = 10;
    static constexpr std::uint32_t kPageMask = (1U << kPageBits) - 1;
    using Page = std::array<Lmr*, 1U << kPageBits>;

    Lmr*& slot_locked(std::uint32_t context) SLUICE_TSA(requires_capability(lock_)) {
        const std::uint32_t index = context & coherence::RegionTable::kIndexMask;
        return (*pages_[index >> kPageBits])[index & kPageMask];
    }

    Lmr* find_locked(std::uint32_t context) noexcept SLUICE_TSA(requires_capability(lock_));

    Mutex mutex_; // makes pages
    SpinLock lock_;
    // Those that were needed so far; never given back.
    std::array<std::unique_ptr<Page>, 1U << (coherence::RegionTable::kIndexBits - kPageBits)>
        pages_ SLUICE_TSA(guarded_by(lock_));
};

} // namespace sluice::dapl
