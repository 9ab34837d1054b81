// SPDX-License-Identifier: BSD-3-Clause
//
// Files like those that the kernel has for a device under /sys/class/infiniband. libibverbs reads
// GIDs, partition keys and the node's GUID from such files only, wherever they are.
//
// They are in a directory of this process alone, and go with the device (core/private_directory).
#pragma once

#include <string>
#include <utility>

#include "core/private_directory.hpp"
#include "core/result.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/gid_table.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::device {

class SysfsDirectory {
  public:
    static Result<SysfsDirectory> make(const LocalAddress& where);

    const std::string& path() const noexcept { return directory_.path(); }

    // GIDS are others than before. Each file changes at once, or stays as it was.
    void update(const GidTable& gids, const std::string& interface) const;

  private:
    explicit SysfsDirectory(PrivateDirectory directory) noexcept : directory_(std::move(directory)) {}

    PrivateDirectory directory_;
};

// As /sys has it: 0000:0000:0000:0000:0000:ffff:7f00:0001.
std::string gid_text(const engine::Address& address);
// The device's GUID: derived from its address, as there is nothing else to tell devices apart.
std::uint64_t guid_of(const engine::Address& address) noexcept;

} // namespace sluice::uroce::device
