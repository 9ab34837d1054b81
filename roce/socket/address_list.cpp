// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/address_list.hpp"

#include "roce/socket/address.hpp"
#include "roce/socket/words.hpp"

namespace sluice::roce::socket {
namespace {

Error fail(std::string_view item, const char* why) {
    return Error::format(ErrorKind::kInvalidArgument, 0, "SLUICE_UROCE: %s: %s", quoted(item).c_str(), why);
}

Result<DeviceAddress> parse_item(std::string_view item) {
    const std::size_t equals = item.find('=');
    const auto number = device_number(item.substr(0, equals));
    if (equals == std::string_view::npos || !number) {
        return fail(item, "an entry is uroceN=ADDRESS, with N from 0 to 253");
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

Result<std::vector<DeviceAddress>> parse_address_list(const char* text) {
    std::vector<DeviceAddress> list;
    for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
        const std::string_view item = take_word(rest, ',');
        Result<DeviceAddress> one = parse_item(item);
        if (!one) {
            return std::move(one).error();
        }
        const auto clashes = [&](const DeviceAddress& other) {
            return other.number == one->number || other.address == one->address;
        };
        if (std::ranges::any_of(list, clashes)) {
            return fail(item, "this device or this address stands there twice");
        }
        list.push_back(*one);
    }
    return list;
}

} // namespace sluice::roce::socket
