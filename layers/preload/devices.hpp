// SPDX-License-Identifier: BSD-3-Clause
//
// The devices that a program is shown: the kernel's, and behind them uroce's, those that `sluice devices`
// lists and that an interface has and rdma_rxe leaves; and those that this program's ids are bound to,
// because what librdmacm returns must be in the list (ADR 64).
//
// A uroce device in the list is a name for what opening it makes: a context of libsluice's, whose own device
// is another structure with the same name. It lives until the process ends, so that a program may keep it.
#pragma once

#include <infiniband/verbs.h>
#include <sluice/sluice.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/sync.hpp"

namespace sluice::layers::preload {

// Those that programs see: the listed ones, and others that are open.
std::vector<sluice_uroce_device> present_devices();
// The name of a device's file in /dev/infiniband.
std::string verbs_file_of(const std::string& device);

// A device of uroce's that isn't open. Functions of libibverbs that get one read what libibverbs keeps behind
// its public part: nothing is there.
struct ListedDevice {
    ibv_device device{};
    std::uint8_t private_part[1024]{}; // more than any version's
    std::uint64_t guid = 0;            // as ibv_get_device_guid() gives it
};

// Thread safety: everything may be called from any thread.
class Devices {
  public:
    static Devices& instance();

    // Null-terminated, for release(). THEIRS are the kernel's COUNT, or null; they are released with it.
    Result<ibv_device**> list(ibv_device** theirs, int& count);
    // What came with LIST; nothing if it isn't one of ours.
    Result<ibv_device**> release(ibv_device** list);
    // Null for devices of the kernel's.
    const ListedDevice* find(const ibv_device* device);

  private:
    struct List {
        std::unique_ptr<ibv_device*[]> devices;
        ibv_device** theirs;
    };

    ibv_device* listed_locked(const std::string& name, std::uint64_t guid)
        SLUICE_TSA(requires_capability(mutex_));

    Mutex mutex_;
    std::map<std::string, std::unique_ptr<ListedDevice>> listed_ SLUICE_TSA(guarded_by(mutex_));
    std::map<ibv_device**, List> lists_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::layers::preload
