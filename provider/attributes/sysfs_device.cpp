// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/sysfs_device.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace sluice::attributes {

namespace {

constexpr std::string_view kClass = "/sys/class/infiniband";
constexpr std::string_view kVirtualDevices = "/sys/devices/virtual/";
std::atomic<OwnDevices> own_devices{nullptr};

constexpr std::size_t kMaxName = 63; // a device name is at most that long, in the kernel and here

bool is_own(const FileTree& tree, std::string_view name) {
    const OwnDevices are_own = own_devices.load(std::memory_order_acquire); // partner: set_own_devices()
    return tree.is_live() && are_own != nullptr && are_own(name);
}

bool is_possible_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxName && name != "." && name != ".." &&
           std::ranges::none_of(name, [](char c) { return c == '/' || static_cast<unsigned char>(c) < ' '; });
}

// The kernel's software devices sit on nothing and name no driver. rxe has a file that names its
// network interface; siw is the one that speaks iWARP.
std::string software_driver(const FileTree& tree, const std::string& path) {
    const std::string type = tree.read_line(path + "/node_type");
    if (type.starts_with("1:") && tree.exists(path + "/parent")) {
        return "rdma_rxe";
    }
    return type.starts_with("4:") ? "siw" : "";
}

// rxe has a file for it, and all have one for the first entry of the first port's table of GIDs; reading that
// is an error where the entry has no interface. An adapter of InfiniBand has the directory.
std::string netdev_of(const FileTree& tree, const SysfsDevice& device) {
    for (const char* file : {"/parent", "/ports/1/gid_attrs/ndevs/0"}) {
        if (std::string name = tree.read_line(device.path + file); !name.empty()) {
            return name;
        }
    }
    if (device.hardware_path.empty()) {
        return "";
    }
    const Result<std::vector<std::string>> below = tree.list(device.hardware_path + "/net");
    return below && below->size() == 1 ? below->front() : "";
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
        if (text.size() > 300) {
            return text + ", ...";
        }
    }
    return text;
}

Error no_such_device(const FileTree& tree, std::string_view name) {
    const auto length = static_cast<int>(std::min(name.size(), kMaxName));
    const Result<std::vector<std::string>> names = device_names(tree);
    if (!names || names->empty()) {
        return Error::format(
            ErrorKind::kNotFound, ENODEV,
            "no RDMA device '%.*s': there is none at all (`rdma link add rxe0 type rxe netdev "
            "IF` makes one)",
            length, name.data());
    }
    return Error::format(ErrorKind::kNotFound, ENODEV, "no RDMA device '%.*s'; there are: %s", length,
                         name.data(), joined(*names).c_str());
}

} // namespace

void set_own_devices(OwnDevices are_own) noexcept {
    own_devices.store(are_own, std::memory_order_release);
}

Result<std::vector<std::string>> device_names(const FileTree& tree) {
    if (!tree.has_entry(kClass)) {
        return std::vector<std::string>{}; // the kernel's RDMA core isn't loaded
    }
    Result<std::vector<std::string>> names = tree.list(kClass);
    if (names) {
        std::erase_if(*names, [](const std::string& name) { return !is_possible_name(name); });
    }
    return names;
}

Result<SysfsDevice> find_device(const FileTree& tree, std::string_view name) {
    if (!is_possible_name(name)) {
        return no_such_device(tree, name);
    }
    if (is_own(tree, name)) {
        return SysfsDevice{.name = std::string(name),
                           .path = {},
                           .hardware_path = {},
                           .kernel_driver = {},
                           .netdev = {},
                           .firmware = {},
                           .is_software = true,
                           .is_own = true};
    }
    Result<std::string> path = tree.resolve(std::string(kClass) + "/" + std::string(name));
    if (!path) {
        return no_such_device(tree, name);
    }
    SysfsDevice device;
    device.name = name;
    device.path = std::move(*path);
    if (Result<std::string> hardware = tree.resolve(device.path + "/device")) {
        device.hardware_path = std::move(*hardware);
        if (const Result<std::string> driver = tree.resolve(device.hardware_path + "/driver")) {
            device.kernel_driver = name_of(*driver);
        }
    }
    device.netdev = netdev_of(tree, device);
    device.firmware = tree.read_line(device.path + "/fw_ver");
    if (!device.hardware_path.empty()) {
        return device;
    }
    device.is_software = device.path.starts_with(kVirtualDevices) && !tree.has_entry(device.path + "/device");
    if (device.is_software) {
        device.kernel_driver = software_driver(tree, device.path);
    }
    return device;
}

} // namespace sluice::attributes
