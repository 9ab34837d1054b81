// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/credits.hpp"

namespace sluice::rpma {

// There is a place for each group, since a group has a credit at least. Only after an error there may be
// none: then no send succeeds any more, and no group is asked for.
void Credits::sent_locked(bool is_signalled) noexcept {
    ++without_group_;
    if (!is_signalled || count_ == groups_.size()) {
        return;
    }
    groups_[(first_ + count_) % groups_.size()] = without_group_;
    ++count_;
    without_group_ = 0;
}

std::uint32_t Credits::next_group_locked() noexcept {
    if (count_ == 0) {
        return 1; // no request of ours; it has taken a place in any case
    }
    const std::uint32_t sends = groups_[first_];
    first_ = (first_ + 1) % groups_.size();
    --count_;
    return sends;
}

// After an error each request completes for itself, and tells nothing reliable but its status.
void Credits::completed(std::span<const ibv_wc> completions) noexcept {
    const LockGuard guard(lock_);
    for (const ibv_wc& completion : completions) {
        const bool is_send = completion.status == IBV_WC_SUCCESS && (completion.opcode & IBV_WC_RECV) == 0;
        free_ += is_send ? next_group_locked() : 1;
    }
}

} // namespace sluice::rpma
