// SPDX-License-Identifier: BSD-3-Clause
//
// SLUICE_UROCE: which device has which address, "uroce0=10.0.0.1,uroce1=fe80::1", and which interfaces are
// devices, "eth1,lo" (ADR 64). Without it, uroceN is 127.0.0.(N+1), and every interface is one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

struct DeviceAddress {
    unsigned number = 0; // of uroceN
    engine::Address address;
    bool operator==(const DeviceAddress&) const = default;
};

struct DeviceList {
    std::vector<DeviceAddress> addresses;
    std::vector<std::string> interfaces;
};

inline constexpr unsigned kMostDevices = 254; // as many as 127.0.0.(N+1) gives

// "uroce" and a number as we would write it: "uroce7", but not "uroce07".
std::optional<unsigned> device_number(std::string_view name) noexcept;

// In the order of the text. Null or empty gives an empty list. kInvalidArgument with the word that
// can't be understood: another name, no address of one host, or a name or an address twice. Whether an
// interface is there isn't asked.
Result<DeviceList> parse_device_list(const char* text);

} // namespace sluice::roce::socket
