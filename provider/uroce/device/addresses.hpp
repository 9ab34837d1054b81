// SPDX-License-Identifier: BSD-3-Clause
//
// Which names mean which addresses, and which devices are listed (ADR 64). This is the one place that knows:
// uroceN is what SLUICE_UROCE says, or else sluice.conf, or else 127.0.0.(N+1); uroce_IF is the first address
// of the interface IF; and any IPv4 or IPv6 address of this machine may stand for itself. uroce0 has the rest
// of 127.0.0.0/8 as far as it is used (ADR 65).
#pragma once

#include <string>
#include <vector>

#include "core/file_tree.hpp"
#include "provider/uroce/device/interfaces.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/socket/address.hpp"

namespace sluice::uroce::device {

// Where a device lives: its home, the address that the group belongs to (ADR 63), and what else its interface
// has (ADR 64).
struct LocalAddress {
    std::string name;    // of the device
    engine::Address gid; // IPv4 as ::ffff:a.b.c.d
    std::string interface;
    std::uint32_t interface_mtu = 0;
    std::vector<engine::Address> further{};
    unsigned interface_index = 0;
    bool follows = false;     // what its interface has, and isn't an address that somebody gave
    bool is_loopback = false; // all of 127.0.0.0/8 is its (ADR 65)

    // Whether ADDRESS may become an entry of its GID table because a program uses it.
    bool has_on_demand(const engine::Address& address) const noexcept;

    // The largest path MTU that fits its packets.
    std::uint32_t path_mtu() const noexcept { return socket::active_mtu(interface_mtu); }
};

// A device that is listed.
struct NamedAddress {
    std::string name; // "uroce0", "uroce_eth0"
    engine::Address address;
    std::string origin;                     // "SLUICE_UROCE", a line of sluice.conf, or "default"
    std::vector<engine::Address> further{}; // of its interface
    bool follows = false;                   // as a LocalAddress
    bool is_loopback = false;               // as a LocalAddress
};

// In the order in which they are listed: numbers, then interfaces; or as a variable has it that names
// interfaces. The errors of the variable and of the file.
Result<std::vector<NamedAddress>> named_addresses();
// The same of another machine.
Result<std::vector<NamedAddress>> named_addresses(const FileTree& tree,
                                                  const std::vector<Interface>& interfaces);

// Whether a device of ours can have this name.
bool is_device_name(std::string_view name) noexcept;

// What the GID table of such a device would be now.
Result<std::vector<engine::Address>> present_addresses(const LocalAddress& where);

// kInvalidArgument for what is neither a name nor an address, kNotFound for an address that no
// interface of this machine has. Asks the system.
Result<LocalAddress> resolve(const char* name_or_address);

} // namespace sluice::uroce::device
