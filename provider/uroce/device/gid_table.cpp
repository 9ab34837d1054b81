// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/gid_table.hpp"

#include <algorithm>

namespace sluice::uroce::device {

GidTable::GidTable(const engine::Address& home, std::span<const engine::Address> further) noexcept {
    put(0, keep(home));
    for (const engine::Address& one : further) {
        (void)add(one);
    }
}

const engine::Address* GidTable::find(const engine::Address& address) const noexcept {
    for (std::size_t index = 0; index < length(); ++index) {
        const engine::Address* const entry = at(index);
        if (entry != nullptr && *entry == address) {
            return entry;
        }
    }
    return nullptr;
}

bool GidTable::follow(std::span<const engine::Address> present) noexcept {
    bool changed = false;
    for (std::size_t index = 0; index < length(); ++index) {
        const engine::Address* const entry = at(index);
        if (entry != nullptr && std::ranges::find(present, *entry) == present.end()) {
            entries_[index].store(nullptr, std::memory_order_release); // partner: the acquire in at()
            changed = true;
        }
    }
    for (const engine::Address& one : present) {
        changed = (find(one) == nullptr && add(one)) || changed;
    }
    return changed;
}

bool GidTable::has_room() const noexcept {
    std::size_t index = 1;
    while (index < length() && at(index) != nullptr) {
        ++index;
    }
    return index < kMostEntries && known_count_ < kMostKnown;
}

void GidTable::take(const engine::Address& address) noexcept {
    (void)(find(address) != nullptr || add(address));
}

// The home goes to its own place, which nothing else takes.
bool GidTable::add(const engine::Address& address) noexcept {
    std::size_t index = address == known_.front() ? 0 : 1;
    while (index < length() && at(index) != nullptr) {
        ++index;
    }
    const engine::Address* const kept = index < kMostEntries ? keep(address) : nullptr;
    if (kept == nullptr) {
        return false;
    }
    put(index, kept);
    return true;
}

const engine::Address* GidTable::keep(const engine::Address& address) noexcept {
    const auto end = known_.begin() + static_cast<std::ptrdiff_t>(known_count_);
    const auto found = std::find(known_.begin(), end, address);
    if (found == end && known_count_ < kMostKnown) {
        known_[known_count_++] = address;
    }
    return found == known_.end() ? nullptr : &*found;
}

void GidTable::put(std::size_t index, const engine::Address* address) noexcept {
    entries_[index].store(address, std::memory_order_release); // partner: the acquire in at()
    if (index >= length()) {
        length_.store(index + 1, std::memory_order_release); // partner: the acquire in length()
    }
}

} // namespace sluice::uroce::device
