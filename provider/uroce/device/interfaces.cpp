// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "roce/socket/address.hpp"

namespace sluice::uroce::device {

namespace {

constexpr const char* kInterfaces = "/sys/class/net/";
constexpr const char* kKernelDevices = "/sys/class/infiniband";

int rank(const engine::Address& address) noexcept {
    return engine::is_ipv4(address) ? 0 : socket::is_link_local(address) ? 2 : 1;
}

bool has_address(const ifaddrs& entry) noexcept {
    return entry.ifa_addr != nullptr &&
           (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

bool is_candidate(const ifaddrs& entry) noexcept {
    return has_address(entry) && (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_LOOPBACK) == 0;
}

using AddressList = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Result<AddressList> list_addresses() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return Error::from_errno(errno, "listing the network interfaces");
    }
    return AddressList(list, freeifaddrs);
}

void add(const ifaddrs& entry, std::vector<Interface>& interfaces) {
    auto found = std::ranges::find(interfaces, entry.ifa_name, &Interface::name);
    if (found == interfaces.end()) {
        interfaces.push_back({.name = entry.ifa_name, .index = if_nametoindex(entry.ifa_name)});
        found = interfaces.end() - 1;
    }
    const engine::Address address = socket::from_socket_address(*entry.ifa_addr);
    if (socket::is_unicast(address)) {
        found->addresses.push_back(address);
    }
}

// "02fc:0000:0001:...", as an interface's address 02:fc:00:00:00:01.
bool begins_with_address(std::string gid, std::string hardware) {
    constexpr std::size_t kDigits = 12;
    std::erase(gid, ':');
    std::erase(hardware, ':');
    return hardware.size() == kDigits && hardware.find_first_not_of('0') != std::string::npos &&
           gid.starts_with(hardware);
}

// siw's has no parent in /sys, and its GID is its interface's hardware address. By name it would be found
// where another network namespace has an interface of that name, too.
bool has_siw(const FileTree& tree, const std::string& interface) {
    const auto devices = tree.list(kKernelDevices);
    if (!devices) {
        return false;
    }
    const std::string hardware = tree.read_line(kInterfaces + interface + "/address");
    return std::ranges::any_of(*devices, [&](const std::string& device) {
        return begins_with_address(tree.read_line(kKernelDevices + ("/" + device + "/ports/1/gids/0")),
                                   hardware);
    });
}

} // namespace

// The interface's directory belongs to this network namespace, unlike the names under a device. A bond or a
// VLAN has its adapter's devices below.
bool has_kernel_device(const FileTree& tree, const std::string& interface) {
    const std::string directory = kInterfaces + interface;
    if (tree.exists(directory + "/device/infiniband") || has_siw(tree, interface)) {
        return true;
    }
    const auto entries = tree.list(directory);
    return entries && std::ranges::any_of(*entries, [&](const std::string& entry) {
               return entry.starts_with("lower_") &&
                      tree.exists(directory + "/" + entry + "/device/infiniband");
           });
}

Result<std::vector<Interface>> list_interfaces(Kernels kernels) {
    const Result<AddressList> list = list_addresses();
    if (!list) {
        return list.error().clone();
    }
    std::vector<Interface> interfaces;
    for (const ifaddrs* entry = list->get(); entry != nullptr; entry = entry->ifa_next) {
        if (is_candidate(*entry)) {
            add(*entry, interfaces);
        }
    }
    const FileTree tree;
    std::erase_if(interfaces, [&](const Interface& one) {
        return one.addresses.empty() || (kernels == Kernels::kExcluded && has_kernel_device(tree, one.name));
    });
    std::ranges::sort(interfaces, {}, &Interface::index);
    for (Interface& one : interfaces) {
        std::ranges::stable_sort(one.addresses, {}, rank);
    }
    return interfaces;
}

Result<std::vector<engine::Address>> addresses_of_interface(unsigned index) {
    const Result<AddressList> list = list_addresses();
    if (!list) {
        return list.error().clone();
    }
    std::vector<engine::Address> addresses;
    for (const ifaddrs* entry = list->get(); entry != nullptr; entry = entry->ifa_next) {
        if (has_address(*entry) && if_nametoindex(entry->ifa_name) == index &&
            socket::is_unicast(socket::from_socket_address(*entry->ifa_addr))) {
            addresses.push_back(socket::from_socket_address(*entry->ifa_addr));
        }
    }
    std::ranges::stable_sort(addresses, {}, rank);
    return addresses;
}

} // namespace sluice::uroce::device
