// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/lmr_index.hpp"

#include "udapl/provider/memory.hpp"

namespace sluice::dapl {

void LmrIndex::set(std::uint32_t context, Lmr* lmr) {
    const std::uint32_t page = (context & coherence::RegionTable::kIndexMask) >> kPageBits;
    const LockGuard making(mutex_);
    bool is_new = false;
    {
        const LockGuard guard(lock_);
        is_new = pages_[page] == nullptr;
    }
    std::unique_ptr<Page> made = is_new ? std::make_unique<Page>() : nullptr;
    const LockGuard guard(lock_);
    if (is_new) {
        pages_[page] = std::move(made);
    }
    slot_locked(context) = lmr;
}

void LmrIndex::clear(std::uint32_t context) noexcept {
    const LockGuard guard(lock_);
    if (pages_[(context & coherence::RegionTable::kIndexMask) >> kPageBits] != nullptr) {
        slot_locked(context) = nullptr; // otherwise there was no memory to set it
    }
}

Held<Lmr> LmrIndex::hold(std::uint32_t context) noexcept {
    const std::uint32_t page = (context & coherence::RegionTable::kIndexMask) >> kPageBits;
    const LockGuard guard(lock_);
    // Who destroys it clears its slot first: until then it is all there.
    Lmr* const lmr = pages_[page] != nullptr ? slot_locked(context) : nullptr;
    return Held<Lmr>(lmr != nullptr && lmr->context() == context ? lmr : nullptr);
}

} // namespace sluice::dapl
