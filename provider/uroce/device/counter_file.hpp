// SPDX-License-Identifier: BSD-3-Clause
//
// Where the devices of this process count: in a file that `sluice stat` reads, or, where there can be none,
// in memory of the process alone. Nothing but the reading depends on the file: whatever goes wrong with it,
// the devices work.
//
// The file's write lock (fcntl) says that the process lives: the kernel gives it back at any end, the child
// of a fork doesn't have it, and a reader in another container learns the process number as it is there.
// That lock would go if this process closed any other descriptor of the file, so nobody else opens it here.
//
// Thread safety: none, the registry's lock is held. The counters themselves belong to their device.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/mapped_bytes.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/counter_format.hpp"
#include "provider/uroce/device/counters.hpp"
#include "provider/uroce/device/queue_pair_rows.hpp"

namespace sluice::uroce::device {

class CounterFile {
  public:
    // Removes files of processes that have ended, if there are too many.
    CounterFile();
    CounterFile(const CounterFile&) = delete;
    CounterFile& operator=(const CounterFile&) = delete;
    ~CounterFile() = default;

    // All zero, until release(). Any number of them may have one name; a reader sees their sum.
    DeviceCounters& acquire(std::string_view device, std::string_view address);
    DeviceCounters& acquire(const LocalAddress& where);
    // For the queue pairs of the device that counts in COUNTERS. Null: there is no file.
    engine::QueuePairRows* rows(const DeviceCounters& counters) noexcept;
    // What was counted stays readable, in one room for each address.
    void release(DeviceCounters& counters) noexcept;

    // This is the child of a fork: the file is the parent's.
    void abandon() noexcept { file_.reset(); }
    // -1: there is none.
    int fd() const noexcept { return file_.get(); }

  private:
    struct Room {
        CounterRoom* memory;
        bool is_used;
        std::unique_ptr<CounterRoom> own; // where the file has none
        std::unique_ptr<DeviceRows> rows; // where the file has one
    };

    bool create(const std::string& directory);
    bool fill(const std::string& path);
    CounterRoom* room_in_file(std::size_t index) noexcept;
    Room& free_room();
    std::vector<Room>::iterator room_of(const DeviceCounters& counters) noexcept;

    Descriptor file_;
    MappedBytes mapped_;
    std::size_t reserved_ = 0; // bytes of the file, up to its rows, that have their memory
    std::unique_ptr<RowTable> row_table_;
    std::vector<Room> rooms_;
};

} // namespace sluice::uroce::device
