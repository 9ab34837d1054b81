// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/devices.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "layers/cmdev/contexts.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::preload {

namespace {

// A device that isn't listed, and is open because a program connects over its address.
sluice_uroce_device describe(const cmdev::Found& open, std::uint64_t guid) {
    sluice_uroce_device device{};
    std::snprintf(device.name, sizeof device.name, "%s", open.context->device->name);
    std::snprintf(device.interface, sizeof device.interface, "lo");
    const std::string address = open.address.to_string();
    std::snprintf(device.address, sizeof device.address, "%s", address.c_str());
    device.node_guid = guid;
    device.gid_count = 1;
    std::snprintf(device.gids[0], sizeof device.gids[0], "%s", address.c_str());
    return device;
}

void add_open(std::vector<sluice_uroce_device>& present) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    for (const cmdev::Found& open : cmdev::contexts().all_open()) {
        ibv_device* const device = open.context->device;
        const bool is_listed = std::ranges::any_of(
            present, [device](const auto& one) { return std::strcmp(one.name, device->name) == 0; });
        if (real != nullptr && !is_listed) {
            present.push_back(describe(open, real->get_device_guid(device)));
        }
    }
}

} // namespace

std::vector<sluice_uroce_device> present_devices() {
    std::vector<sluice_uroce_device> present;
    sluice_uroce_device device{};
    for (unsigned index = 0; sluice_describe_uroce(index, &device, sizeof device) == 0; ++index) {
        if (device.is_hidden == 0) {
            present.push_back(device);
        }
    }
    add_open(present);
    return present;
}

// Unlike any of the kernel's, whose names end in a number.
std::string verbs_file_of(const std::string& device) {
    return "uverbs-" + device;
}

Devices& Devices::instance() {
    static Devices& instance = *new Devices(); // other destructors may still list
    return instance;
}

ibv_device* Devices::listed_locked(const std::string& name, std::uint64_t guid) {
    std::unique_ptr<ListedDevice>& listed = listed_[name];
    if (listed == nullptr) {
        listed = std::make_unique<ListedDevice>();
        std::snprintf(listed->device.name, sizeof listed->device.name, "%s", name.c_str());
        const std::string file = verbs_file_of(name);
        std::snprintf(listed->device.dev_name, sizeof listed->device.dev_name, "%s", file.c_str());
        std::snprintf(listed->device.dev_path, sizeof listed->device.dev_path,
                      "/sys/class/infiniband_verbs/%s", file.c_str());
        std::snprintf(listed->device.ibdev_path, sizeof listed->device.ibdev_path, "/sys/class/infiniband/%s",
                      name.c_str());
        listed->device.node_type = IBV_NODE_CA;
        listed->device.transport_type = IBV_TRANSPORT_IB;
    }
    listed->guid = guid; // of its address, which SLUICE_UROCE may have changed
    return &listed->device;
}

Result<ibv_device**> Devices::list(ibv_device** theirs, int& count) {
    const std::vector<sluice_uroce_device> ours = present_devices();
    const std::size_t kernels = theirs == nullptr ? 0 : static_cast<std::size_t>(count);
    const std::size_t total = kernels + ours.size();
    List made{std::make_unique<ibv_device*[]>(total + 1), theirs};
    std::copy_n(theirs, kernels, made.devices.get());
    const LockGuard guard(mutex_);
    for (std::size_t i = 0; i < ours.size(); ++i) {
        made.devices[kernels + i] = listed_locked(ours[i].name, ours[i].node_guid);
    }
    ibv_device** const list = made.devices.get();
    lists_.emplace(list, std::move(made));
    count = static_cast<int>(total);
    return list;
}

Result<ibv_device**> Devices::release(ibv_device** list) {
    const LockGuard guard(mutex_);
    const auto found = lists_.find(list);
    if (found == lists_.end()) {
        return list;
    }
    ibv_device** const theirs = found->second.theirs;
    lists_.erase(found);
    return theirs;
}

const ListedDevice* Devices::find(const ibv_device* device) {
    const LockGuard guard(mutex_);
    const auto found =
        std::ranges::find_if(listed_, [device](const auto& each) { return &each.second->device == device; });
    return found == listed_.end() ? nullptr : found->second.get();
}

} // namespace sluice::layers::preload
