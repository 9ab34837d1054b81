// SPDX-License-Identifier: BSD-3-Clause
//
// An RDMA device as the kernel shows it under /sys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/file_tree.hpp"

namespace sluice::attributes {

struct SysfsDevice {
    std::string name;
    std::string path;          // under /sys/devices, without links
    std::string hardware_path; // what it sits on, such as a PCI function; empty for software
    std::string kernel_driver; // empty when it isn't known
    std::string netdev;        // of its first port; empty when it isn't known
    std::string firmware;      // likewise
    // Software moves the data: there is no DMA. Known software devices have a kernel_driver.
    bool is_software = false;
    // Made by this process itself: the kernel knows nothing of it, and the fields above are empty.
    bool is_own = false;
};

// The maker of devices without the kernel says which names are its own; null: there is none. Asked
// about this machine only, not about recorded ones, maybe by several threads at once.
using OwnDevices = bool (*)(std::string_view name) noexcept;
void set_own_devices(OwnDevices are_own) noexcept;

// kNotFound with the names that there are, when there is no such device.
Result<SysfsDevice> find_device(const FileTree& tree, std::string_view name);

// The names of all RDMA devices, sorted. None is no error.
Result<std::vector<std::string>> device_names(const FileTree& tree);

} // namespace sluice::attributes
