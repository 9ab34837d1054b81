// SPDX-License-Identifier: BSD-3-Clause
//
// Which device somebody means: by its name, its network interface's, or an IP address there.
#pragma once

#include <string>
#include <vector>

#include "ibverbs-glue/address.hpp"

namespace sluice::glue {

struct Device {
    std::string name;               // as libibverbs lists it
    std::string netdev;             // of its first port; empty: it has none
    std::vector<Address> addresses; // of that, or of the device itself
    bool is_uroce = false;          // the first address is what it is opened at, whatever its name
};

// The devices that are there: those that libibverbs lists, uroce0, and others of uroce's that were given an
// address. None is opened; a device of uroce's may belong to another process.
Result<std::vector<Device>> list_devices();

// The one among them that NAME is a name of; its own name comes first, then its interface's, then
// addresses. Null when there is none.
const Device* find_device(const std::vector<Device>& devices, const std::string& name);

// As above; any uroceN and any address 127.x.y.z will do, too. kNotFound when there is none.
Result<Device> resolve_device(const std::string& name);

} // namespace sluice::glue
