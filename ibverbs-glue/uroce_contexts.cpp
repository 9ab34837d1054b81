// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/uroce_contexts.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sluice/sluice.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "core/descriptor.hpp"
#include "core/settings.hpp"
#include "ibverbs-glue/adaptors.hpp"

namespace sluice::glue {

namespace {

// The last byte of a host's address: 0 and 255 are nobody's.
constexpr int kFirstHost = 1;
constexpr int kHosts = 254;
constexpr std::uint16_t kRocePort = 4791;

// The holder of a port is found with each description, by a walk through /proc: too slow for each listener
// and each peer. What the variable says and which addresses there are is looked at again, what the file said
// is not.
struct KnownAddresses {
    Mutex mutex;
    std::vector<ListedAddress> addresses SLUICE_TSA(guarded_by(mutex));
    std::optional<std::string> origin SLUICE_TSA(guarded_by(mutex));
};

bool is_one_of(const Address& address, const ListedAddress& listed) {
    return listed.address.is_same_host(address) ||
           std::ranges::any_of(listed.further,
                               [&address](const Address& one) { return one.is_same_host(address); });
}

std::vector<ListedAddress> describe_addresses() {
    std::vector<ListedAddress> addresses;
    sluice_uroce_device device{};
    for (unsigned index = 0; sluice_describe_uroce(index, &device, sizeof device) == 0; ++index) {
        std::vector<Address> all = addresses_of(device);
        const bool is_given = std::strcmp(device.origin, "default") != 0;
        if (!all.empty() && (is_given || device.is_hidden == 0)) {
            const Address first = all.front();
            all.erase(all.begin());
            addresses.push_back({first, is_given, std::move(all), device.is_loopback != 0});
        }
    }
    return addresses;
}

} // namespace

std::vector<Address> addresses_of(const sluice_uroce_device& device) {
    std::vector<Address> addresses;
    if (const std::optional<Address> own = Address::from_text(device.address)) {
        addresses.push_back(*own);
    }
    for (const auto& gid : device.gids) {
        const std::optional<Address> address = Address::from_text(gid);
        const auto is_same = [&address](const Address& each) { return each.is_same_host(*address); };
        if (address && !address->is_loopback() && std::ranges::none_of(addresses, is_same)) {
            addresses.push_back(*address);
        }
    }
    return addresses;
}

std::string origin_of_uroce_list() {
    const char* const variable = setting_value(Setting::kUroce);
    std::string origin = variable == nullptr ? "" : variable;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return origin;
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        const Result<Address> address = Address::from(entry->ifa_addr);
        if (address && (entry->ifa_flags & IFF_UP) != 0) {
            origin += std::string(" ") + entry->ifa_name + "=" + address->to_string();
        }
    }
    return origin;
}

std::vector<ListedAddress> listed_uroce_addresses() {
    static KnownAddresses& known = *new KnownAddresses();
    const std::string origin = origin_of_uroce_list();
    const LockGuard guard(known.mutex);
    if (known.origin != origin) {
        known.addresses = describe_addresses();
        known.origin = origin;
    }
    return known.addresses;
}

std::vector<Address> given_uroce_addresses() {
    std::vector<Address> addresses;
    for (const ListedAddress& listed : listed_uroce_addresses()) {
        if (listed.is_given) {
            addresses.push_back(listed.address);
        }
    }
    return addresses;
}

std::vector<Address> default_uroce_addresses() {
    std::vector<Address> addresses;
    for (const ListedAddress& listed : listed_uroce_addresses()) {
        if (!listed.is_given && listed.address.is_loopback()) {
            addresses.push_back(listed.address);
        }
    }
    return addresses;
}

bool is_listed_uroce_address(const Address& address) {
    return std::ranges::any_of(listed_uroce_addresses(), [&address](const ListedAddress& listed) {
        return is_one_of(address, listed);
    });
}

bool is_uroce_address(const Address& address) {
    return address.is_loopback() || is_listed_uroce_address(address);
}

Home home_of(const Address& address) {
    const std::vector<ListedAddress> all = listed_uroce_addresses();
    const auto listed =
        std::ranges::find_if(all, [&address](const ListedAddress& one) { return is_one_of(address, one); });
    if (listed != all.end()) {
        return {.address = listed->address, .taking = {}};
    }
    const auto loopback = std::ranges::find(all, true, &ListedAddress::is_loopback);
    const bool is_taken = address.is_loopback() && loopback != all.end();
    return {.address = address, .taking = is_taken ? std::optional(loopback->address) : std::nullopt};
}

Result<void> use_address(ibv_context* context, const Address& address) {
    return from_rc(sluice_use_uroce_address(context, address.get()), "taking a loopback address");
}

std::optional<Address> source_towards(const Address& peer) {
    const Descriptor socket_fd(socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Address to = peer.with_port(kRocePort); // any but 0 tells the way
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    if (connect(socket_fd.get(), to.get(), to.size()) != 0 ||
        getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&from), &size) != 0) {
        return std::nullopt;
    }
    const Result<Address> source = Address::from(reinterpret_cast<const sockaddr*>(&from));
    return source ? std::optional<Address>(source->with_port(0)) : std::nullopt;
}

bool can_be_opened(const Address& address) {
    sluice_uroce_device device{};
    for (unsigned index = 0; sluice_describe_uroce(index, &device, sizeof device) == 0; ++index) {
        const std::optional<Address> listed = Address::from_text(device.address);
        if (listed && listed->is_same_host(address)) {
            return device.used_by[0] == '\0';
        }
    }
    const Descriptor socket_fd(socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Address at = address.with_port(kRocePort);
    return bind(socket_fd.get(), at.get(), at.size()) == 0;
}

std::vector<Address> loopback_neighbours(const Address& peer) {
    sockaddr_in in{};
    std::memcpy(&in, peer.get(), sizeof in);
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    const int peers_host = bytes[3];
    std::vector<Address> neighbours;
    for (int step = 1; step < kHosts; ++step) {
        bytes[3] = static_cast<std::uint8_t>((peers_host - kFirstHost + step) % kHosts + kFirstHost);
        neighbours.push_back(Address::ipv4(bytes.data()));
    }
    return neighbours;
}

} // namespace sluice::glue
