// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/presence.hpp"

#include <endian.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "core/put_text.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/gid_table.hpp"
#include "provider/uroce/device/registry.hpp"
#include "provider/uroce/device/sysfs_directory.hpp"
#include "roce/group/door.hpp"
#include "roce/socket/port_owner.hpp"

namespace sluice::uroce::verbs {

namespace {

// Those of the open device, whose order is older, or those that it would have.
void put_gids(sluice_uroce_device& to, const device::NamedAddress& one) {
    std::vector<engine::Address> gids = device::Registry::instance().gids_of(one.address);
    if (gids.empty()) {
        gids.push_back(one.address);
        gids.insert(gids.end(), one.further.begin(), one.further.end());
    }
    gids.resize(std::min(gids.size(), std::size(to.gids)));
    for (const engine::Address& gid : gids) {
        put_text(to.gids[to.gid_count++], gid == engine::Address{} ? "" : socket::to_text(gid).data());
    }
}
static_assert(std::extent_v<decltype(sluice_uroce_device::gids)> == device::GidTable::kMostEntries);

} // namespace

Result<sluice_uroce_device> describe_device(unsigned index) {
    const Result<std::vector<device::NamedAddress>> named = device::named_addresses();
    if (!named) {
        return named.error().clone();
    }
    if (index >= named->size()) {
        return Error(ErrorKind::kNotFound, "there are no more devices");
    }
    const device::NamedAddress& one = (*named)[index];
    sluice_uroce_device device{};
    put_text(device.name, one.name);
    put_text(device.address, socket::to_text(one.address).data());
    put_text(device.origin, one.origin);
    device.node_guid = htobe64(device::guid_of(one.address));
    put_gids(device, one);
    device.is_loopback = one.is_loopback ? 1 : 0;
    if (!group::is_shared(one.address)) {
        put_text(device.used_by, socket::find_port_owner(FileTree(), one.address).value_or(""));
    }
    // An address that no interface has is no error here: that is what is asked.
    if (const Result<socket::NetworkDevice> found = socket::find_network_device(one.address)) {
        put_text(device.interface, found->name.data());
        device.path_mtu = socket::active_mtu(found->mtu);
    }
    const bool is_held = device.used_by[0] != '\0' && socket::is_kernels_port(FileTree(), one.address);
    device.is_hidden = device.interface[0] == '\0' || is_held ? 1 : 0;
    return device;
}

} // namespace sluice::uroce::verbs
