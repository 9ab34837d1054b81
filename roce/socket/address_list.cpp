// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/address_list.hpp"

#include <net/if.h>

#include "roce/socket/address.hpp"
#include "roce/socket/words.hpp"

namespace sluice::roce::socket {
namespace {

Error fail(std::string_view item, const char* why) {
    return Error::format(ErrorKind::kInvalidArgument, 0, "SLUICE_UROCE: %s: %s", in_quotes(item).c_str(),
                         why);
}

Result<DeviceAddress> parse_address_item(std::string_view item) {
    const std::size_t equals = item.find('=');
    const auto number = device_number(item.substr(0, equals));
    if (!number) {
        return fail(item, "an entry is the name of an interface, or uroceN=ADDRESS, with N from 0 to 253");
    }
    const Result<engine::Address> address = parse_address(item.substr(equals + 1));
    if (!address) {
        return fail(item, "what follows is no IPv4 or IPv6 address; names are not looked up");
    }
    if (!is_unicast(*address)) {
        return fail(item, "a device needs an address of one host, and listens nowhere else");
    }
    return DeviceAddress{.number = *number, .address = *address};
}

// As the kernel allows them. What is called like a device of ours has lost its address.
bool can_be_interface(std::string_view item) noexcept {
    return !item.empty() && item.size() < IF_NAMESIZE && !item.starts_with("uroce") && item != "." &&
           item != ".." && std::ranges::none_of(item, [](char c) {
               return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '/' || c == ':';
           });
}

Result<void> add_interface(std::string_view item, DeviceList& list) {
    if (!can_be_interface(item)) {
        return fail(item, "an entry is the name of an interface, or uroceN=ADDRESS, with N from 0 to 253");
    }
    if (std::ranges::find(list.interfaces, item) != list.interfaces.end()) {
        return fail(item, "this interface stands there twice");
    }
    list.interfaces.emplace_back(item);
    return {};
}

Result<void> add_address(std::string_view item, DeviceList& list) {
    Result<DeviceAddress> one = parse_address_item(item);
    if (!one) {
        return std::move(one).error();
    }
    const auto clashes = [&](const DeviceAddress& other) {
        return other.number == one->number || other.address == one->address;
    };
    if (std::ranges::any_of(list.addresses, clashes)) {
        return fail(item, "this device or this address stands there twice");
    }
    list.addresses.push_back(*one);
    return {};
}

} // namespace

std::optional<unsigned> device_number(std::string_view name) noexcept {
    constexpr std::string_view kPrefix = "uroce";
    if (!name.starts_with(kPrefix)) {
        return std::nullopt;
    }
    const std::string_view digits = name.substr(kPrefix.size());
    const auto number = whole_number<unsigned>(digits);
    const bool is_plain = number && *number < kMostDevices && (digits[0] != '0' || digits.size() == 1);
    return is_plain ? number : std::nullopt;
}

Result<DeviceList> parse_device_list(const char* text) {
    DeviceList list;
    for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
        const std::string_view item = take_word(rest, ',');
        Result<void> added =
            item.find('=') == std::string_view::npos ? add_interface(item, list) : add_address(item, list);
        if (!added) {
            return std::move(added).error();
        }
    }
    const bool has_first =
        std::ranges::find(list.addresses, 0U, &DeviceAddress::number) != list.addresses.end();
    if (has_first && std::ranges::find(list.interfaces, "lo") != list.interfaces.end()) {
        return fail("lo", "this is uroce0, which has another address there");
    }
    return list;
}

} // namespace sluice::roce::socket
