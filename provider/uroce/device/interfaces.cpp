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

// The twelve digits of an interface's hardware address, or nothing.
std::string hardware_of(const FileTree& tree, const std::string& interface) {
    constexpr std::size_t kDigits = 12;
    std::string digits = tree.read_line(kInterfaces + interface + "/address");
    std::erase(digits, ':');
    const bool is_one = digits.size() == kDigits && digits.find_first_not_of('0') != std::string::npos;
    return is_one ? digits : std::string();
}

// The digits of the link-local address that the kernel makes of a hardware address, as the second half of
// 52:54:00:12:34:00's is 5054:00ff:fe12:3400.
std::string link_local_of(const std::string& hardware) {
    constexpr std::string_view kHex = "0123456789abcdef";
    constexpr std::size_t kLocalBit = 2;
    std::string first = hardware.substr(0, 6);
    if (const std::size_t digit = kHex.find(first[1]); digit != std::string_view::npos) {
        first[1] = kHex[digit ^ kLocalBit];
    }
    return "fe80000000000000" + first + "fffe" + hardware.substr(6);
}

// By name it would be found where another network namespace has an interface of that name, too. siw's device
// has no parent in /sys, and its GID is its interface's hardware address. An adapter that is another PCI
// function than its network card, as QEMU's is, has as its first GID what the kernel makes of that address;
// so has rdma_rxe, without a parent.
bool is_made_of_its_address(const FileTree& tree, const std::string& interface) {
    const std::string hardware = hardware_of(tree, interface);
    const auto devices = tree.list(kKernelDevices);
    if (hardware.empty() || !devices) {
        return false;
    }
    const std::string link_local = link_local_of(hardware);
    return std::ranges::any_of(*devices, [&](const std::string& name) {
        const std::string device = kKernelDevices + ("/" + name);
        std::string gid = tree.read_line(device + "/ports/1/gids/0");
        std::erase(gid, ':');
        return gid.starts_with(hardware) || (gid == link_local && tree.exists(device + "/device"));
    });
}

} // namespace

// The interface's directory belongs to this network namespace, unlike the names under a device. A bond or a
// VLAN has its adapter's devices below.
bool has_kernel_device(const FileTree& tree, const std::string& interface) {
    const std::string directory = kInterfaces + interface;
    if (tree.exists(directory + "/device/infiniband") || is_made_of_its_address(tree, interface)) {
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
