// SPDX-License-Identifier: BSD-3-Clause
//
// The devices of this process, by address, and thereby each other's neighbours. It lives until the process
// ends: threads may still be delivering while the program's own objects are being destroyed.
//
// Finding a device takes no lock: it reads a table that doesn't change while somebody reads it. There are
// two tables. Adding or removing a device writes the one that isn't published, publishes it, and then takes
// the lock of each device once: a thread that reads a table holds one of them, so that no thread reads the
// other table afterwards, or has found in it what it still uses. Removing allocates nothing, so that closing
// a device can't fail.
//
// fork: the child has none of the threads and none of the locks in a known state. So the child's
// copies of all devices and tables are poisoned and forgotten, never touched and never freed; the child
// opens devices of its own if it wants any.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/settings.hpp"
#include "core/sync.hpp"
#include "provider/uroce/device/counter_file.hpp"
#include "provider/uroce/device/counter_reader.hpp"
#include "provider/uroce/device/device.hpp"

namespace sluice::uroce::device {

// Whether what reads SETTING understands TEXT, if that is one of uroce's.
Result<void> check_setting(Setting setting, const char* text);

class Registry final : public Neighbours {
  public:
    static Registry& instance();

    // The device with this address, made if there is none; a new one gives its asynchronous events to REPORT.
    // Each acquire() needs a release().
    Result<Device*> acquire(const LocalAddress& where, Device::Report report);
    // When this was the last user: waits for the threads that are delivering to it, and destroys it.
    void release(Device& device) noexcept;

    // The entries of the open device at HOME, all zeros for an empty one. None: it isn't open here.
    std::vector<engine::Address> gids_of(const engine::Address& home);

    // By its home, or else by a further address that it uses.
    Neighbour* find(const engine::Address& address) noexcept override;

    // Where what keeps the memory of a device coherent counts, of any kind of device. Each acquire needs a
    // release().
    SyncCounts& acquire_sync_counts(std::string_view device, std::string_view address);
    void release(SyncCounts& counts) noexcept;

    // What all processes of this user have counted, as read_counters().
    Result<std::vector<ProcessUse>> counted();

  private:
    struct Entry {
        Device* device;
        std::uint32_t users;
    };
    using Table = std::vector<Device*>;
    struct Tables {
        Table first;
        Table second;
    };

    Registry();
    Result<Device*> make_locked(const LocalAddress& where, Device::Report report)
        SLUICE_TSA(requires_capability(changing_));
    CounterFile& counter_file_locked() SLUICE_TSA(requires_capability(changing_)); // made, if it isn't yet
    // Publishes a table of entries_, and waits until no thread reads the former one.
    void publish_locked() noexcept SLUICE_TSA(requires_capability(changing_));
    static void at_exit() noexcept;
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    Mutex changing_; // one acquire() or release() at a time
    // Reserved once, as are the tables.
    std::vector<Entry> entries_ SLUICE_TSA(guarded_by(changing_));
    std::unique_ptr<CounterFile> counters_ SLUICE_TSA(guarded_by(changing_)); // from the first use on
    std::unique_ptr<Tables> tables_ SLUICE_TSA(guarded_by(changing_));
    const Table none_;
    // none_ or one of tables_.
    std::atomic<const Table*> published_{&none_};
};

} // namespace sluice::uroce::device
