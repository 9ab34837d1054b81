// SPDX-License-Identifier: BSD-3-Clause
//
// The devices of this process, by address. It lives until the process ends: threads may still be
// delivering while the program's own objects are being destroyed.
//
// fork: the child has none of the threads and none of the locks in a known state. So the child's
// copies of all devices are poisoned and forgotten, never touched and never freed; the child opens
// devices of its own if it wants any.
#pragma once

#include <memory>
#include <vector>

#include "core/sync.hpp"
#include "provider/uroce/device/device.hpp"

namespace sluice::uroce {

class Registry {
  public:
    static constexpr std::size_t kMaxDevices = 256;

    static Registry& instance();

    // The device with this address, made if there is none. Each acquire() needs a release().
    Result<Device*> acquire(const LocalAddress& where);
    // Waits for those who are at it when this was the last user.
    void release(Device& device) noexcept;

    // Calls USE with the device that has ADDRESS, which stays while USE runs; false if there is none.
    // USE calls nothing that could wait.
    template<typename Use>
    bool with(const Address& address, Use&& use) noexcept {
        const LockGuard guard(finding_);
        for (const Entry& entry : entries_) {
            if (entry.device->where().gid == address) {
                use(*entry.device);
                return true;
            }
        }
        return false;
    }

  private:
    struct Entry {
        Device* device;
        std::uint32_t users;
    };

    Registry();
    Result<Device*> make_locked(const LocalAddress& where) SLUICE_TSA(requires_capability(changing_));
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    Mutex changing_; // one acquire() or release() at a time
    SpinLock finding_;
    // Reserved once. Changed with both locks, read with either.
    std::vector<Entry> entries_;
};

} // namespace sluice::uroce
