// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/registry.hpp"

#include <algorithm>

namespace sluice::layers::check {

void Keys::put(const std::shared_ptr<Region>& region) {
    local_.put({region->context, region->local_key}, region);
    remote_.put({region->context, region->remote_key}, region);
}

void Keys::end(const std::shared_ptr<Region>& region) {
    local_.forget({region->context, region->local_key}, region.get());
    remote_.forget({region->context, region->remote_key}, region.get());
    const LockGuard lock(mutex_);
    ended_.push_back(region);
    if (ended_.size() > kMostEnded) {
        ended_.pop_front();
    }
}

std::shared_ptr<Region> Keys::ended(const ibv_context* context, std::uint32_t key) const {
    const LockGuard lock(mutex_);
    const auto found =
        std::find_if(ended_.rbegin(), ended_.rend(), [&](const std::shared_ptr<Region>& region) {
            return region->context == context && (region->local_key == key || region->remote_key == key);
        });
    return found != ended_.rend() ? *found : nullptr;
}

void Touched::add(std::uint64_t first, std::uint64_t bytes) noexcept {
    const std::uint64_t last = (first + (bytes != 0 ? bytes - 1 : 0)) >> kShift;
    if (last - (first >> kShift) >= kWords * 64) {
        is_everything_ = true;
        return;
    }
    for (std::uint64_t piece = first >> kShift; piece <= last; ++piece) {
        words_[piece / 64 % kWords].fetch_or(bit_of(piece), std::memory_order_relaxed);
    }
}

Registry& Registry::instance() noexcept {
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): else all is lost
    static auto* const registry = new Registry;
    return *registry;
}

} // namespace sluice::layers::check
