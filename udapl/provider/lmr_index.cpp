// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/lmr_index.hpp"

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
        slot_locked(context) = nullptr; // otherwise it was never set
    }
}

Lmr* LmrIndex::find_locked(std::uint32_t context) noexcept {
    const std::uint32_t page = (context & coherence::RegionTable::kIndexMask) >> kPageBits;
    return pages_[page] != nullptr ? slot_locked(context) : nullptr;
}

} // namespace sluice::dapl
