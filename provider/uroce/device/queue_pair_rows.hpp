// SPDX-License-Identifier: BSD-3-Clause
//
// The rows of the queue pairs of this process, in its file of counters (counter_format.hpp). Without a file,
// or where no row is free, a queue pair counts where nobody sees it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/sync.hpp"
#include "provider/uroce/device/counter_format.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::device {

class RowTable {
  public:
    // FILE, of kWholeFileBytes, is mapped at MAPPED; both outlive it.
    RowTable(int file, std::uint8_t* mapped) noexcept;

    // For a queue pair of the device in ROOM. Null: there is none.
    engine::QueuePairRow* acquire(std::size_t room) noexcept;
    void release(engine::QueuePairRow& row) noexcept;

  private:
    static constexpr std::size_t kWordBits = 64;

    QueuePairInFile& at(std::size_t index) const noexcept;
    RowsHeader& header() const noexcept;
    bool reserve(std::size_t index) noexcept SLUICE_TSA(requires_capability(changing_));

    const int file_;
    std::uint8_t* const mapped_;
    Mutex changing_; // devices make queue pairs at the same time
    // Not in the file: others may write there.
    std::array<std::uint64_t, kMaxRows / kWordBits> taken_ SLUICE_TSA(guarded_by(changing_)){};
    std::size_t reserved_ SLUICE_TSA(guarded_by(changing_)) = 0; // rows that have their memory
};

// Those of one device.
class DeviceRows final : public engine::QueuePairRows {
  public:
    DeviceRows(RowTable& table, std::size_t room) noexcept : table_(table), room_(room) {}
    engine::QueuePairRow* acquire() noexcept override { return table_.acquire(room_); }
    void release(engine::QueuePairRow& row) noexcept override { table_.release(row); }

  private:
    RowTable& table_;
    const std::size_t room_;
};

} // namespace sluice::uroce::device
