// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/context.hpp"

#include <arpa/inet.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "ibverbs-glue/descriptor.hpp"

namespace sluice::glue {

namespace {

// As libsluice names them: uroce0, uroce1...
constexpr std::string_view kUrocePrefix = "uroce";

// The devices that libibverbs lists, as long as it lives.
class DeviceList {
  public:
    static Result<DeviceList> make() {
        int count = 0;
        Result<ibv_device**> list = from_null(ibv_get_device_list(&count), "listing RDMA devices");
        if (!list && list.error().os_errno() == ENOSYS) {
            return DeviceList(nullptr, 0); // the kernel has no RDMA
        }
        if (!list) {
            return std::move(list).error();
        }
        return DeviceList(*list, count);
    }

    ibv_device** begin() const noexcept { return list_.get(); }
    ibv_device** end() const noexcept { return list_.get() + count_; }

  private:
    struct Free {
        void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
    };

    DeviceList(ibv_device** list, int count) noexcept : list_(list), count_(count) {}

    std::unique_ptr<ibv_device*, Free> list_;
    int count_;
};

// On any other address a device of the kernel's is meant, and uroce in its place would be a surprise.
bool is_loopback(const std::string& text) noexcept {
    in_addr address{};
    return inet_pton(AF_INET, text.c_str(), &address) == 1 && Address::ipv4(&address).is_loopback();
}

// uroce, which libibverbs doesn't list.
Result<ibv_context*> open_uroce_raw(const std::string& name_or_address) {
    return from_null(sluice_open_uroce(name_or_address.c_str()), "opening a uroce device");
}

Result<ibv_context*> open_raw(const std::string& device) {
    if (device.starts_with(kUrocePrefix) || is_loopback(device)) {
        return open_uroce_raw(device);
    }
    Result<DeviceList> list = DeviceList::make();
    if (!list) {
        return std::move(list).error();
    }
    ibv_device** const found = std::find_if(
        list->begin(), list->end(), [&](ibv_device* each) { return device == ibv_get_device_name(each); });
    if (found == list->end()) {
        return Error::format(ErrorKind::kNotFound, ENODEV, "there is no RDMA device '%s'", device.c_str());
    }
    return from_null(ibv_open_device(*found), "opening an RDMA device");
}

} // namespace

std::optional<Address> address_in(const ibv_gid& gid) {
    static constexpr std::array<std::uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static constexpr std::array<std::uint8_t, 16> kNone{};
    if (std::memcmp(gid.raw, kIpv4Prefix.data(), kIpv4Prefix.size()) == 0) {
        return Address::ipv4(gid.raw + kIpv4Prefix.size());
    }
    const bool is_link_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
    if (is_link_local || std::memcmp(gid.raw, kNone.data(), kNone.size()) == 0) {
        return std::nullopt;
    }
    return Address::ipv6(gid.raw);
}

Result<std::vector<std::string>> device_names() {
    Result<DeviceList> list = DeviceList::make();
    if (!list) {
        return std::move(list).error();
    }
    std::vector<std::string> names;
    for (ibv_device* each : *list) {
        // In a program that a preloaded library shows uroce's devices to, they are in the list, too.
        std::string name = ibv_get_device_name(each);
        if (!name.starts_with(kUrocePrefix)) {
            names.push_back(std::move(name));
        }
    }
    return names;
}

Result<Context> Context::open(const std::string& device) {
    return take(open_raw(device));
}

Result<Context> Context::open_uroce(const std::string& address) {
    return take(open_uroce_raw(address));
}

Result<Context> Context::take(Result<ibv_context*> opened) {
    if (!opened) {
        return std::move(opened).error();
    }
    Context context(*opened);
    if (Result<void> done = make_non_blocking(context.async_fd()); !done) {
        return std::move(done).error();
    }
    return context;
}

Result<ibv_device_attr_ex> Context::query_device() const {
    ibv_device_attr_ex attributes{};
    Result<void> done =
        from_rc(ibv_query_device_ex(get(), nullptr, &attributes), "asking for a device's attributes");
    if (!done) {
        return std::move(done).error();
    }
    return attributes;
}

namespace {
// No queue pair is made for them.
constexpr std::size_t kCheapAttributes = offsetof(sluice_device_attributes, max_inline);
} // namespace

SolicitedNotice Context::solicited_notice() const noexcept {
    sluice_device_attributes attributes{};
    if (sluice_query_context(get(), &attributes, kCheapAttributes) != 0) {
        return {}; // the cautious assumption
    }
    const std::string_view driver = attributes.kernel_driver.value;
    return {.receives = driver != "siw", .failures = driver != "rdma_rxe" && driver != "siw"};
}

Result<Coherence> Context::query_coherence() const {
    sluice_device_attributes attributes{};
    Result<void> done = from_rc(sluice_query_context(get(), &attributes, kCheapAttributes),
                                "asking whether a device sees the CPU's caches");
    if (!done) {
        return std::move(done).error();
    }
    switch (attributes.cpu_coherence.value) {
    case SLUICE_COHERENCE_COHERENT:
        return Coherence::kCoherent;
    case SLUICE_COHERENCE_NONCOHERENT:
        return Coherence::kNonCoherent;
    case SLUICE_COHERENCE_SIMULATED:
        return Coherence::kSimulated;
    default:
        return Coherence::kUnknown;
    }
}

Result<ibv_port_attr> Context::query_port(std::uint8_t port) const {
    ibv_port_attr attributes{};
    Result<void> done = from_rc(ibv_query_port(get(), port, &attributes), "asking for a port's attributes");
    if (!done) {
        return std::move(done).error();
    }
    return attributes;
}

Result<std::vector<Address>> Context::gid_addresses(std::uint8_t port) const {
    const Result<ibv_port_attr> attributes = query_port(port);
    if (!attributes) {
        return attributes.error().clone();
    }
    std::vector<Address> addresses;
    for (int index = 0; index < attributes->gid_tbl_len; ++index) {
        ibv_gid gid{};
        if (ibv_query_gid(get(), port, index, &gid) != 0) {
            continue; // an entry that is not in use
        }
        const std::optional<Address> address = address_in(gid);
        const bool is_new = address && std::ranges::none_of(addresses, [&](const Address& other) {
                                return other.is_same_host(*address);
                            });
        if (is_new) {
            addresses.push_back(*address);
        }
    }
    return addresses;
}

Result<std::optional<AsyncEvent>> Context::next_async_event() const {
    ibv_async_event event{};
    Result<int> got = from_minus_one(ibv_get_async_event(get(), &event), "taking an event of a device");
    if (got) {
        return std::optional<AsyncEvent>(AsyncEvent(event));
    }
    if (got.error().os_errno() == EAGAIN) {
        return std::optional<AsyncEvent>();
    }
    return std::move(got).error();
}

} // namespace sluice::glue
