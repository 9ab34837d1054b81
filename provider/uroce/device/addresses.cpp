// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/addresses.hpp"

#include <algorithm>
#include <string_view>

#include "core/settings.hpp"
#include "provider/config/config.hpp"
#include "roce/socket/address_list.hpp"

namespace sluice::uroce::device {

namespace {

constexpr std::uint8_t kLoopbackNet = 127;

engine::Address default_address(unsigned number) noexcept {
    return socket::from_ipv4({kLoopbackNet, 0, 0, static_cast<std::uint8_t>(number + 1)});
}

bool has_number(const std::vector<NamedAddress>& named, unsigned number) {
    return std::ranges::any_of(named, [number](const NamedAddress& one) { return one.number == number; });
}

Result<void> add_from_file(const config::DeviceSection& device, std::vector<NamedAddress>& named) {
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
    if (!has_number(named, *number)) {
        named.push_back({.number = *number, .address = *address, .origin = origin});
    }
    return {};
}

// The first name that an address has, so that it has one however it was asked for.
std::string name_of(const engine::Address& address, const std::vector<NamedAddress>& named) {
    const auto given = std::ranges::find(named, address, &NamedAddress::address);
    if (given != named.end()) {
        return given->name();
    }
    const auto ip = socket::ipv4_bytes(address);
    const unsigned number = ip[3] - 1U;
    const bool is_default = engine::is_ipv4(address) && number < socket::kMostDevices &&
                            address == default_address(number) && !has_number(named, number);
    return is_default ? NamedAddress{.number = number, .address = address, .origin = {}}.name()
                      : std::string("uroce-") + socket::to_text(address).data();
}

Result<engine::Address> address_of(const char* text, const std::vector<NamedAddress>& named) {
    if (const auto number = socket::device_number(text)) {
        const auto given = std::ranges::find(named, *number, &NamedAddress::number);
        return given != named.end() ? given->address : default_address(*number);
    }
    Result<engine::Address> address = socket::parse_address(text);
    if (!address) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "\"%.80s\" is no device: say uroce0 to uroce%u, or an IPv4 or IPv6 address of "
                             "this machine",
                             text, socket::kMostDevices - 1);
    }
    return address;
}

} // namespace

Result<std::vector<NamedAddress>> named_addresses(const FileTree& tree) {
    auto list = socket::parse_address_list(setting_value(Setting::kUroce));
    if (!list) {
        return std::move(list).error();
    }
    std::vector<NamedAddress> named;
    for (const socket::DeviceAddress& one : *list) {
        named.push_back({.number = one.number, .address = one.address, .origin = "SLUICE_UROCE"});
    }
    const Result<config::File> file = config::load(tree);
    if (!file) {
        return file.error().clone();
    }
    for (const config::DeviceSection& device : file->devices) {
        if (device.address.is_said()) {
            Result<void> added = add_from_file(device, named);
            if (!added) {
                return std::move(added).error();
            }
        }
    }
    if (!has_number(named, 0)) {
        named.push_back({.number = 0, .address = default_address(0), .origin = "default"});
    }
    std::ranges::sort(named, {}, &NamedAddress::number);
    return named;
}

bool is_device_name(std::string_view name) noexcept {
    constexpr std::string_view kOthers = "uroce-";
    return socket::device_number(name).has_value() || name.starts_with(kOthers);
}

Result<LocalAddress> resolve(const char* name_or_address) {
    const Result<std::vector<NamedAddress>> named = named_addresses();
    if (!named) {
        return named.error().clone();
    }
    Result<engine::Address> address = address_of(name_or_address, *named);
    if (!address) {
        return std::move(address).error();
    }
    Result<socket::NetworkDevice> device = socket::find_network_device(*address);
    if (!device) {
        return std::move(device).error();
    }
    return LocalAddress{.name = name_of(*address, *named),
                        .gid = *address,
                        .interface = device->name.data(),
                        .interface_mtu = device->mtu};
}

} // namespace sluice::uroce::device
