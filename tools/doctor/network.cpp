// SPDX-License-Identifier: BSD-3-Clause
//
// The network interfaces of this namespace that have addresses: whether their links are up.
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <memory>

#include "tools/doctor/checks.hpp"
#include "tools/plain_file.hpp"

namespace sluice::tools::doctor {

namespace {

struct InterfaceListDeleter {
    void operator()(ifaddrs* list) const noexcept { freeifaddrs(list); }
};

// The flags of each interface that has an IP address.
std::map<std::string, unsigned> interfaces_with_addresses() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        throw system_failure("the network interfaces can't be listed");
    }
    const std::unique_ptr<ifaddrs, InterfaceListDeleter> owner(list);
    std::map<std::string, unsigned> found;
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr != nullptr &&
            (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6)) {
            found[at->ifa_name] = at->ifa_flags;
        }
    }
    return found;
}

// The other end of a pair (veth), if it is in this namespace, too.
std::string other_end_of(const std::string& interface) {
    std::ifstream file("/sys/class/net/" + interface + "/iflink");
    std::array<char, IF_NAMESIZE> name{};
    unsigned index = 0;
    if (!(file >> index) || index == if_nametoindex(interface.c_str()) ||
        if_indextoname(index, name.data()) == nullptr) {
        return {};
    }
    return name.data();
}

// Its carrier comes with whatever is attached to it, which may be nothing.
bool is_bridge(const std::string& interface) {
    return access(("/sys/class/net/" + interface + "/bridge").c_str(), F_OK) == 0;
}

Remedy remedy_for_carrier(const std::string& interface) {
    const std::string other = other_end_of(interface);
    if (other.empty()) {
        return {"", "whoever has the other end of its wire"};
    }
    return as_root("ip link set " + shell_word(other) + " up");
}

void check_interface(const std::string& name, unsigned flags, Report& report) {
    if ((flags & IFF_UP) == 0) {
        report.warn(name + " has an address and is down: programs can't use a device there",
                    as_root("ip link set " + shell_word(name) + " up"));
    } else if ((flags & IFF_RUNNING) == 0 && is_bridge(name)) {
        report.ok(name + " is a bridge, and nothing that is up hangs on it");
    } else if ((flags & IFF_RUNNING) == 0) {
        report.warn(name + " is up and has no carrier: nothing that it sends arrives",
                    remedy_for_carrier(name));
    } else {
        report.ok(name + " is up");
    }
}

} // namespace

void check_network(const Options& /*options*/, Report& report) {
    for (const auto& [name, flags] : interfaces_with_addresses()) {
        check_interface(name, flags, report);
    }
}

} // namespace sluice::tools::doctor
