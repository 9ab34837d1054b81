// SPDX-License-Identifier: BSD-3-Clause
//
// Files like those that the kernel has for a device under /sys/class/infiniband. libibverbs reads
// GIDs, partition keys and the node's GUID from such files only, wherever they are.
//
// They are in a directory of our own, $XDG_RUNTIME_DIR/sluice-uroce-XXXXXX or the same under
// $TMPDIR, /tmp or /dev/shm, and go with the device, or at the end of a program that hasn't closed it. A
// process that was killed leaves its directory behind; the next that makes one removes it. What tells a
// living one is a lock on a file in it, which the system gives back whatever happens (process numbers would
// be wrong across containers).
#pragma once

#include <string>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::device {

class SysfsDirectory {
  public:
    static Result<SysfsDirectory> make(const LocalAddress& where);

    SysfsDirectory(SysfsDirectory&& other) noexcept;
    SysfsDirectory& operator=(SysfsDirectory&&) = delete;
    SysfsDirectory(const SysfsDirectory&) = delete;
    SysfsDirectory& operator=(const SysfsDirectory&) = delete;
    ~SysfsDirectory();

    const std::string& path() const noexcept { return path_; }

  private:
    SysfsDirectory(std::string path, Descriptor lock) noexcept
        : path_(std::move(path)), lock_(std::move(lock)) {}

    std::string path_; // empty after a move
    Descriptor lock_;
};

// As /sys has it: 0000:0000:0000:0000:0000:ffff:7f00:0001.
std::string gid_text(const engine::Address& address);
// The device's GUID: derived from its address, as there is nothing else to tell devices apart.
std::uint64_t guid_of(const engine::Address& address) noexcept;

} // namespace sluice::uroce::device
