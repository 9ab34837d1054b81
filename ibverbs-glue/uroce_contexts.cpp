// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/uroce_contexts.hpp"

#include <netinet/in.h>
#include <sluice/sluice.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/descriptor.hpp"
#include "core/settings.hpp"

namespace sluice::glue {

namespace {

// The last byte of a host's address: 0 and 255 are nobody's.
constexpr int kFirstHost = 1;
constexpr int kHosts = 254;
constexpr std::uint16_t kRocePort = 4791;

// The holder of a port is found with each description, by a walk through /proc: too slow for each listener
// and each peer. What the variable said is looked at again, what the file said is not.
struct KnownAddresses {
    Mutex mutex;
    std::vector<ListedAddress> addresses SLUICE_TSA(guarded_by(mutex));
    std::optional<std::string> variable SLUICE_TSA(guarded_by(mutex));
};

std::vector<ListedAddress> describe_addresses() {
    std::vector<ListedAddress> addresses;
    sluice_uroce_device device{};
    for (unsigned index = 0; sluice_describe_uroce(index, &device, sizeof device) == 0; ++index) {
        if (const std::optional<Address> address = Address::from_text(device.address)) {
            addresses.push_back({*address, std::strcmp(device.origin, "default") != 0});
        }
    }
    return addresses;
}

} // namespace

std::vector<ListedAddress> listed_uroce_addresses() {
    static KnownAddresses& known = *new KnownAddresses();
    const char* const now = setting_value(Setting::kUroce);
    const std::string variable = now == nullptr ? "" : now;
    const LockGuard guard(known.mutex);
    if (known.variable != variable) {
        known.addresses = describe_addresses();
        known.variable = variable;
    }
    return known.addresses;
}

namespace {

std::vector<Address> uroce_addresses(bool given) {
    std::vector<Address> addresses;
    for (const ListedAddress& listed : listed_uroce_addresses()) {
        if (listed.is_given == given) {
            addresses.push_back(listed.address);
        }
    }
    return addresses;
}

} // namespace

std::vector<Address> given_uroce_addresses() {
    return uroce_addresses(true);
}

std::vector<Address> default_uroce_addresses() {
    return uroce_addresses(false);
}

bool is_uroce_address(const Address& address) {
    return address.is_loopback() ||
           std::ranges::any_of(given_uroce_addresses(),
                               [&address](const Address& given) { return given.is_same_host(address); });
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
