// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/gid_table.hpp"

#include <algorithm>

namespace sluice::uroce::device {

GidTable::GidTable(const engine::Address& home, std::span<const engine::Address> further) noexcept {
    entries_[length_++] = home;
    for (const engine::Address& one : further.first(std::min(further.size(), kMostEntries - 1))) {
        entries_[length_++] = one;
    }
}

const engine::Address* GidTable::find(const engine::Address& address) const noexcept {
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(length_);
    const auto found = std::find(entries_.begin(), end, address);
    return found == end ? nullptr : &*found;
}

} // namespace sluice::uroce::device
