// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libibverbs: the calls that know which devices there are, and the one that asks the
// kernel for something about an open one. All others work on a uroce device as they are.
#include <infiniband/verbs.h>
#include <sluice/sluice.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "core/boundary.hpp"
#include "layers/cmdev/takeover.hpp"
#include "layers/hooks/real.hpp"
#include "layers/preload/devices.hpp"

namespace cmdev = sluice::layers::cmdev;
namespace hooks = sluice::layers::hooks;

using sluice::at_boundary;
using sluice::Result;
using sluice::layers::preload::Devices;
using sluice::layers::preload::ListedDevice;

namespace {

const ListedDevice* find_listed(const ibv_device* device) noexcept {
    const Result<const ListedDevice*> found = at_boundary(
        "find_listed", [&]() -> Result<const ListedDevice*> { return Devices::instance().find(device); });
    return found ? *found : nullptr;
}

// A uroce context's descriptor is an eventfd, and no kernel device's is.
bool is_ours(int cmd_fd) noexcept {
    std::array<char, 32> link;
    std::array<char, 32> target{};
    (void)std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", cmd_fd);
    return readlink(link.data(), target.data(), target.size() - 1) > 0 &&
           std::string_view(target.data()) == "anon_inode:[eventfd]";
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

ibv_device** ibv_get_device_list(int* num_devices) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr) {
        return nullptr;
    }
    cmdev::take_over_librdmacm(__builtin_return_address(0));
    int count = 0;
    ibv_device** const theirs = real->get_device_list(&count);
    const int error = errno; // most often ENOSYS: the kernel has no RDMA
    const Result<ibv_device**> all =
        at_boundary("ibv_get_device_list", [&] { return Devices::instance().list(theirs, count); });
    if (!all || (theirs == nullptr && count == 0)) {
        if (all) {
            ibv_free_device_list(*all);
        } else if (theirs != nullptr) {
            real->free_device_list(theirs);
        }
        errno = all ? error : all.error().to_errno();
        return nullptr;
    }
    if (num_devices != nullptr) {
        *num_devices = count;
    }
    return *all;
}

void ibv_free_device_list(ibv_device** list) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    const Result<ibv_device**> theirs =
        at_boundary("ibv_free_device_list", [&] { return Devices::instance().release(list); });
    if (real != nullptr && theirs && *theirs != nullptr) {
        real->free_device_list(*theirs);
    }
}

__be64 ibv_get_device_guid(ibv_device* device) {
    const ListedDevice* const ours = find_listed(device);
    if (ours != nullptr) {
        return ours->guid;
    }
    const hooks::RealVerbs* const real = hooks::real_verbs();
    return real != nullptr ? real->get_device_guid(device) : 0;
}

int ibv_get_device_index(ibv_device* device) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    const bool asks_kernel =
        real != nullptr && real->get_device_index != nullptr && find_listed(device) == nullptr;
    return asks_kernel ? real->get_device_index(device) : -1;
}

ibv_context* ibv_open_device(ibv_device* device) {
    const ListedDevice* const ours = find_listed(device);
    if (ours != nullptr) {
        return sluice_open_uroce(ours->device.name);
    }
    const hooks::RealVerbs* const real = hooks::real_verbs();
    return real != nullptr ? real->open_device(device) : nullptr;
}

// libibverbs looks for a device file behind the descriptor, and would call ours a wrong argument.
ibv_context* ibv_import_device(int cmd_fd) {
    if (is_ours(cmd_fd)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr || real->import_device == nullptr) {
        errno = ENOSYS;
        return nullptr;
    }
    return real->import_device(cmd_fd);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
    // For a device of the kernel's libsluice asks libibverbs, by a name that may lead here again: a
    // drop-in's.
    thread_local bool asked = false;
    if (asked) {
        const hooks::RealVerbs* const real = hooks::real_verbs();
        return real != nullptr ? real->create_comp_channel(context) : nullptr;
    }
    asked = true;
    ibv_comp_channel* const channel = sluice_create_comp_channel(context);
    asked = false;
    return channel;
}

#pragma GCC visibility pop
} // extern "C"
