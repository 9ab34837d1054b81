// SPDX-License-Identifier: BSD-3-Clause
//
// The addresses of a device, each an entry of its port's GID table. Entry 0 is the device's home, by which
// processes find each other (ADR 63).
//
// Thread safety: everything may be called from any thread, and takes no lock.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "provider/uroce/roce.hpp"
#include "roce/engine/types.hpp"

namespace sluice::uroce::device {

class GidTable {
  public:
    static constexpr std::size_t kMostEntries = 16;

    GidTable(const engine::Address& home, std::span<const engine::Address> further) noexcept;

    // Behind the last entry.
    std::size_t length() const noexcept { return length_; }
    // Null: there is no entry at INDEX. The address stays where it is.
    const engine::Address* at(std::size_t index) const noexcept {
        return index < length_ ? &entries_[index] : nullptr;
    }
    // Null: ADDRESS is no entry.
    const engine::Address* find(const engine::Address& address) const noexcept;

  private:
    std::array<engine::Address, kMostEntries> entries_{};
    std::size_t length_ = 0;
};

} // namespace sluice::uroce::device
