// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/addresses.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "core/log.hpp"
#include "core/settings.hpp"
#include "provider/config/config.hpp"
#include "roce/socket/address_list.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::uint8_t kLoopbackNet = 127;
constexpr std::string_view kInterfacePrefix = "uroce_";
constexpr std::string_view kAddressPrefix = "uroce-";
constexpr const char* kVariable = "SLUICE_UROCE";
constexpr const char* kDefault = "default";

// Where a numbered device lives because somebody said so.
struct Given {
    unsigned number;
    engine::Address address;
    std::string origin;
};

// What variable and file say together. A variable that names interfaces says everything.
struct Said {
    std::vector<Given> given; // by number
    std::vector<std::string> interfaces;
};

engine::Address default_address(unsigned number) noexcept {
    return socket::from_ipv4({kLoopbackNet, 0, 0, static_cast<std::uint8_t>(number + 1)});
}

std::string name_of_number(unsigned number) {
    return "uroce" + std::to_string(number);
}

const Given* find_given(const std::vector<Given>& given, unsigned number) {
    const auto found = std::ranges::find(given, number, &Given::number);
    return found == given.end() ? nullptr : &*found;
}

Result<void> add_from_file(const config::DeviceSection& device, std::vector<Given>& given) {
    const std::string origin = std::string(config::kPath) + ":" + std::to_string(device.address.line);
    const auto number = socket::device_number(device.name);
    Result<engine::Address> address = socket::parse_address(device.address.value);
    if (!address) {
        return std::move(address).error();
    }
    if (!number || !socket::is_unicast(*address)) {
        return Error::format(ErrorKind::kProtocol, 0, "%s: %s", origin.c_str(),
                             number ? "a device needs an address of one host, and listens nowhere else"
                                    : "devices with addresses are uroce0 to uroce253");
    }
    if (find_given(given, *number) == nullptr) {
        given.push_back({.number = *number, .address = *address, .origin = origin});
    }
    return {};
}

Result<Said> read_settings(const FileTree& tree) {
    Result<socket::DeviceList> list = socket::parse_device_list(setting_value(Setting::kUroce));
    if (!list) {
        return std::move(list).error();
    }
    Said said{.given = {}, .interfaces = std::move(list->interfaces)};
    for (const socket::DeviceAddress& one : list->addresses) {
        said.given.push_back({.number = one.number, .address = one.address, .origin = kVariable});
    }
    const Result<config::File> file = config::load(tree);
    if (!file) {
        return file.error().clone();
    }
    for (const config::DeviceSection& device : file->devices) {
        if (device.address.is_said() && said.interfaces.empty()) {
            Result<void> added = add_from_file(device, said.given);
            if (!added) {
                return std::move(added).error();
            }
        }
    }
    std::ranges::sort(said.given, {}, &Given::number);
    return said;
}

NamedAddress device_of(const Given& one) {
    return {.name = name_of_number(one.number), .address = one.address, .origin = one.origin};
}

// If it is there.
std::vector<engine::Address> loopback_of_ipv6() {
    engine::Address address;
    address.gid.back() = 1;
    return socket::find_network_device(address) ? std::vector{address} : std::vector<engine::Address>{};
}

NamedAddress loopback_device(const char* origin) {
    NamedAddress device{.name = name_of_number(0), .address = default_address(0), .origin = origin};
    device.further = loopback_of_ipv6();
    device.follows = true;
    device.is_loopback = true;
    return device;
}

NamedAddress device_of(const Interface& interface, const char* origin) {
    return {.name = std::string(kInterfacePrefix) + interface.name,
            .address = interface.addresses.front(),
            .origin = origin,
            .further = {interface.addresses.begin() + 1, interface.addresses.end()},
            .follows = true};
}

// One that isn't there may come.
std::vector<NamedAddress> chosen(const Said& said, const std::vector<Interface>& interfaces) {
    std::vector<NamedAddress> named;
    for (const Given& one : said.given) {
        named.push_back(device_of(one));
    }
    for (const std::string& name : said.interfaces) {
        const auto found = std::ranges::find(interfaces, name, &Interface::name);
        if (name == "lo") {
            named.push_back(loopback_device(kVariable));
        } else if (found != interfaces.end()) {
            named.push_back(device_of(*found, kVariable));
        } else {
            SLUICE_LOG(kWarning, "uroce", "SLUICE_UROCE: no interface \"%s\" is up and has an address",
                       name.c_str());
        }
    }
    return named;
}

std::vector<NamedAddress> listed(const Said& said, const std::vector<Interface>& interfaces) {
    if (!said.interfaces.empty()) {
        return chosen(said, interfaces);
    }
    std::vector<NamedAddress> named;
    if (find_given(said.given, 0) == nullptr) {
        named.push_back(loopback_device(kDefault));
    }
    for (const Given& one : said.given) {
        named.push_back(device_of(one));
    }
    if (said.given.empty()) {
        for (const Interface& one : interfaces) {
            named.push_back(device_of(one, kDefault));
        }
    }
    return named;
}

// An interface that is named is uroce's even if it has a device of the kernel's.
Result<std::vector<Interface>> interfaces_for(const Said& said) {
    if (said.interfaces.empty() && !said.given.empty()) {
        return std::vector<Interface>();
    }
    return list_interfaces(said.interfaces.empty() ? Kernels::kExcluded : Kernels::kIncluded);
}

// The first name that an address has, so that it has one however it was asked for.
std::string name_of(const engine::Address& address, const Said& said,
                    const std::vector<NamedAddress>& named) {
    const auto known = std::ranges::find(named, address, &NamedAddress::address);
    if (known != named.end()) {
        return known->name;
    }
    const auto given = std::ranges::find(said.given, address, &Given::address);
    if (given != said.given.end()) {
        return name_of_number(given->number);
    }
    const auto ip = socket::ipv4_bytes(address);
    const unsigned number = ip[3] - 1U;
    const bool is_default = engine::is_ipv4(address) && number < socket::kMostDevices &&
                            address == default_address(number) && find_given(said.given, number) == nullptr;
    return is_default ? name_of_number(number)
                      : std::string(kAddressPrefix) + socket::to_text(address).data();
}

Result<engine::Address> address_of_interface(const char* name) {
    const Result<std::vector<Interface>> interfaces = list_interfaces(Kernels::kIncluded);
    if (!interfaces) {
        return interfaces.error().clone();
    }
    const auto found = std::ranges::find(*interfaces, std::string_view(name), &Interface::name);
    if (found == interfaces->end()) {
        return Error::format(ErrorKind::kNotFound, ENODEV,
                             "no interface \"%.80s\" of this network namespace is up and has an address; `ip "
                             "address` lists those that there are",
                             name);
    }
    return found->addresses.front();
}

Result<engine::Address> address_of(const char* text, const std::vector<Given>& given) {
    if (const auto number = socket::device_number(text)) {
        const Given* const one = find_given(given, *number);
        return one != nullptr ? one->address : default_address(*number);
    }
    if (std::string_view(text).starts_with(kInterfacePrefix)) {
        return address_of_interface(text + kInterfacePrefix.size());
    }
    // The name that an address has which no device is listed for leads to it, too.
    const bool is_name = std::string_view(text).starts_with(kAddressPrefix);
    Result<engine::Address> address = socket::parse_address(is_name ? text + kAddressPrefix.size() : text);
    if (!address) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "\"%.80s\" is no device: say uroce0 to uroce%u, uroce_IF for an interface IF, "
                             "or an IPv4 or IPv6 address of this machine",
                             text, socket::kMostDevices - 1);
    }
    return address;
}

} // namespace

Result<std::vector<NamedAddress>> named_addresses() {
    const Result<Said> said = read_settings(FileTree());
    if (!said) {
        return said.error().clone();
    }
    const Result<std::vector<Interface>> interfaces = interfaces_for(*said);
    return interfaces ? listed(*said, *interfaces)
                      : Result<std::vector<NamedAddress>>(interfaces.error().clone());
}

Result<std::vector<NamedAddress>> named_addresses(const FileTree& tree,
                                                  const std::vector<Interface>& interfaces) {
    const Result<Said> said = read_settings(tree);
    return said ? listed(*said, interfaces) : Result<std::vector<NamedAddress>>(said.error().clone());
}

bool LocalAddress::has_on_demand(const engine::Address& address) const noexcept {
    return is_loopback && socket::is_on_loopback_network(address);
}

bool is_device_name(std::string_view name) noexcept {
    return socket::device_number(name).has_value() || name.starts_with(kAddressPrefix) ||
           (name.starts_with(kInterfacePrefix) && name.size() > kInterfacePrefix.size());
}

Result<LocalAddress> resolve(const char* name_or_address) {
    const Result<Said> said = read_settings(FileTree());
    if (!said) {
        return said.error().clone();
    }
    Result<engine::Address> address = address_of(name_or_address, said->given);
    if (!address) {
        return std::move(address).error();
    }
    Result<socket::NetworkDevice> device = socket::find_network_device(*address);
    if (!device) {
        return std::move(device).error();
    }
    const Result<std::vector<Interface>> interfaces = interfaces_for(*said);
    if (!interfaces) {
        return interfaces.error().clone();
    }
    const std::vector<NamedAddress> named = listed(*said, *interfaces);
    LocalAddress where{.name = name_of(*address, *said, named),
                       .gid = *address,
                       .interface = device->name.data(),
                       .interface_mtu = device->mtu,
                       .interface_index = device->index};
    // One that somebody gave, or that was asked for, stays alone.
    const auto its = std::ranges::find(named, *address, &NamedAddress::address);
    if (its != named.end()) {
        where.further = its->further;
        where.follows = its->follows;
        where.is_loopback = its->is_loopback;
    }
    return where;
}

Result<std::vector<engine::Address>> present_addresses(const LocalAddress& where) {
    if (where.gid != default_address(0)) {
        return addresses_of_interface(where.interface_index);
    }
    std::vector<engine::Address> addresses = loopback_of_ipv6();
    addresses.insert(addresses.begin(), where.gid);
    return addresses;
}

} // namespace sluice::uroce::device
