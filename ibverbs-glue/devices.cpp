// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/devices.hpp"

#include <sluice/sluice.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "core/log.hpp"
#include "ibverbs-glue/context.hpp"
#include "ibverbs-glue/netlink.hpp"
#include "ibverbs-glue/uroce_contexts.hpp"

namespace sluice::glue {

namespace {

// What the kernel's networking knows of devices; empty where there is none.
template<typename T>
std::vector<T> or_none(Result<std::vector<T>> found, const char* what) {
    if (!found) {
        SLUICE_LOG(kInfo, "verbs", "%s can't be found out: %s (%d)", what, found.error().text(),
                   found.error().os_errno());
        return {};
    }
    return *std::move(found);
}

bool is_link_local(const Address& address) noexcept {
    const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    return address.family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr);
}

// Those that need not be guessed. None is opened for it: an address has one owner, and another process that
// opens its own just then would find it taken.
void list_uroce(std::vector<Device>& devices) {
    sluice_uroce_device uroce{};
    for (unsigned i = 0; sluice_describe_uroce(i, &uroce, sizeof uroce) == 0; ++i) {
        if (uroce.is_hidden == 0) {
            std::vector<Address> addresses = addresses_of(uroce);
            const bool is_uroce = !addresses.empty();
            devices.push_back(Device{uroce.name, uroce.interface, std::move(addresses), is_uroce});
        }
    }
}

// A device that no kernel knows tells its addresses by its GIDs.
Result<Device> ask_device(const std::string& name) {
    Result<Context> context = Context::open(name);
    if (!context) {
        const int os_errno = context.error().os_errno();
        return os_errno == EINVAL || os_errno == EADDRNOTAVAIL
                   ? Error(ErrorKind::kNotFound, "no uroce device has that name or address", os_errno)
                   : std::move(context).error();
    }
    Result<std::vector<Address>> addresses = context->gid_addresses(1);
    if (!addresses) {
        return std::move(addresses).error();
    }
    const bool is_uroce = !addresses->empty();
    return Device{name, "", *std::move(addresses), is_uroce};
}

} // namespace

Result<std::vector<Device>> list_devices() {
    Result<std::vector<std::string>> names = device_names();
    if (!names) {
        return std::move(names).error();
    }
    const std::vector<RdmaLink> links = or_none(rdma_links(), "interfaces of RDMA devices");
    const std::vector<NetdevAddress> netdevs = or_none(netdev_addresses(), "addresses of interfaces");
    std::vector<Device> devices;
    for (std::string& name : *names) {
        Device device{std::move(name), "", {}, false};
        const auto link =
            std::ranges::find_if(links, [&](const RdmaLink& each) { return each.device == device.name; });
        device.netdev = link == links.end() ? "" : link->netdev;
        for (const NetdevAddress& each : netdevs) {
            if (link != links.end() && link->netdev_index != 0 && each.netdev_index == link->netdev_index) {
                device.addresses.push_back(each.address);
            }
        }
        devices.push_back(std::move(device));
    }
    list_uroce(devices);
    return devices;
}

const Device* find_device(const std::vector<Device>& devices, const std::string& name) {
    const auto find = [&devices](auto is_it) {
        const auto found = std::ranges::find_if(devices, is_it);
        return found == devices.end() ? nullptr : &*found;
    };
    if (const Device* device = find([&](const Device& each) { return each.name == name; })) {
        return device;
    }
    if (const Device* device =
            find([&](const Device& each) { return !each.netdev.empty() && each.netdev == name; })) {
        return device;
    }
    const auto has_name = [&name](const Address& address) { return address.to_string() == name; };
    const auto is_at_first = [&](const Device& each) {
        return !each.addresses.empty() && has_name(each.addresses.front());
    };
    if (const Device* device = find(is_at_first)) {
        return device;
    }
    // A link-local address may be several interfaces'.
    return find([&](const Device& each) {
        return std::ranges::any_of(each.addresses, [&](const Address& address) {
            return !is_link_local(address) && has_name(address);
        });
    });
}

Result<Device> resolve_device(const std::string& name) {
    Result<std::vector<Device>> devices = list_devices();
    if (!devices) {
        return std::move(devices).error();
    }
    const Device* found = find_device(*devices, name);
    return found != nullptr ? Result<Device>(*found) : ask_device(name);
}

} // namespace sluice::glue
