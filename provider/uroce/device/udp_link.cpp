// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/udp_link.hpp"

#include <fcntl.h>

#include <cerrno>

#include "core/log.hpp"

namespace sluice::uroce::device {

namespace {

Result<std::unique_ptr<socket::UdpPort>> open_port(const socket::PortConfig& config, engine::Memory& memory,
                                                   const group::Group& group) {
    const Result<socket::NetworkDevice> device = socket::usable_device(config);
    if (!device) {
        return device.error().clone();
    }
    Descriptor own(fcntl(group.socket(), F_DUPFD_CLOEXEC, 0));
    if (own.get() < 0) {
        return Error::from_errno(errno, "no descriptor for a UDP port; raise `ulimit -n`");
    }
    return socket::UdpPort::on(std::move(own), config, *device, memory);
}

} // namespace

Result<std::unique_ptr<UdpLink>> UdpLink::open(const engine::Address& local, engine::Memory& memory,
                                               socket::PcapRecorder* recorder,
                                               socket::PortCounters* counters) {
    const socket::PortConfig config{.local = local, .recorder = recorder, .counters = counters};
    Result<std::unique_ptr<group::Group>> shared = group::Group::join(config);
    if (!shared && shared.error().kind() != ErrorKind::kNotSupported &&
        shared.error().kind() != ErrorKind::kPermission) {
        return std::move(shared).error();
    }
    if (!shared) {
        SLUICE_LOG(kWarning, "uroce", "%s: no second process can use this address while this one does: %s",
                   socket::to_text(local).data(), shared.error().text());
    }
    auto port = shared ? open_port(config, memory, **shared) : socket::UdpPort::open(config, memory);
    if (!port) {
        return std::move(port).error();
    }
    return std::make_unique<UdpLink>(shared ? *std::move(shared) : nullptr, *std::move(port), memory,
                                     recorder, counters);
}

socket::UdpPort* UdpLink::port_at(const engine::Address& address) const noexcept {
    if (address == port_->local()) {
        return port_.get();
    }
    for (const auto& port : further()) {
        if (address == port->local()) {
            return port.get();
        }
    }
    return nullptr;
}

Result<int> UdpLink::use(const engine::Address& address) {
    const LockGuard guard(adding_);
    const std::size_t count = further().size();
    if (port_at(address) != nullptr) {
        return -1;
    }
    if (count == further_.size()) {
        return Error::format(ErrorKind::kInsufficientResources, ENOSPC,
                             "a device uses %zu addresses, which is the most; %s can be a device of its own",
                             1 + count, socket::to_text(address).data());
    }
    Result<std::unique_ptr<socket::UdpPort>> port = open_further(address);
    if (!port) {
        return std::move(port).error();
    }
    further_[count] = *std::move(port);
    further_count_.store(count + 1, std::memory_order_release); // partner: the acquire in further()
    return further_[count]->descriptor();
}

Result<std::unique_ptr<socket::UdpPort>> UdpLink::open_further(const engine::Address& address) {
    const socket::PortConfig config{.local = address, .recorder = recorder_, .counters = counters_};
    if (group_ == nullptr) {
        return socket::UdpPort::open(config, memory_);
    }
    const Result<socket::NetworkDevice> device = socket::usable_device(config);
    if (!device) {
        return device.error().clone();
    }
    Result<Descriptor> own = group_->open_at(address);
    if (!own) {
        return std::move(own).error();
    }
    return socket::UdpPort::on(*std::move(own), config, *device, memory_);
}

bool UdpLink::append(const engine::OutPacket& packet, bool damaged) noexcept {
    socket::UdpPort* const port = port_at(packet.source);
    return port != nullptr && port->sender().append(packet, damaged);
}

bool UdpLink::flush() noexcept {
    bool done = port_->sender().flush();
    for (const auto& port : further()) {
        done = port->sender().flush() && done;
    }
    return done;
}

bool UdpLink::fetch() noexcept {
    bool any = port_->receiver().fetch(socket::Receiver::kMaxMessages) != 0;
    for (const auto& port : further()) {
        any = port->receiver().fetch(socket::Receiver::kMaxMessages) != 0 || any;
    }
    for (const auto& multicast : multicasts_) {
        any = multicast->receiver().fetch(socket::Receiver::kMaxMessages) != 0 || any;
    }
    return any;
}

void UdpLink::deliver(Receiver& receiver) noexcept {
    const auto take = [&](const engine::InPacket& in) {
        if (owns(in.packet, in.destination)) {
            receiver.packet(in);
        } else {
            group_->hand_on(in);
        }
    };
    port_->receiver().deliver(take);
    for (const auto& port : further()) {
        port->receiver().deliver(take);
    }
    for (const auto& multicast : multicasts_) {
        multicast->receiver().deliver([&](const engine::InPacket& in) { receiver.packet(in); });
    }
}

// Each process has a socket of its own for a group, and the kernel gives each of them a copy.
Result<int> UdpLink::join(const engine::Address& group) {
    for (const auto& multicast : multicasts_) {
        if (multicast->group() == group) {
            return Error(ErrorKind::kExists, "the group is heard already");
        }
    }
    if (multicasts_.size() == kMaxMulticastGroups) {
        return Error(ErrorKind::kInsufficientResources, "64 multicast groups are joined; leave one first");
    }
    if (engine::is_ipv4(group) != engine::is_ipv4(port_->local())) {
        return Error::format(
            ErrorKind::kInvalidArgument, 0,
            "%s can't hear %s: a device of IPv4 hears ::ffff:224.0.0.0 to ::ffff:239.255.255.255, "
            "one of IPv6 the others",
            socket::to_text(port_->local()).data(), socket::to_text(group).data());
    }
    auto joined = socket::MulticastPort::join(group, port_->network_device(), recorder_);
    if (!joined) {
        return std::move(joined).error();
    }
    multicasts_.push_back(*std::move(joined));
    return multicasts_.back()->descriptor();
}

void UdpLink::leave_groups(Listens listens, const void* whom) noexcept {
    std::erase_if(multicasts_, [&](const auto& multicast) { return !listens(whom, multicast->group()); });
}

void UdpLink::abandon() noexcept {
    port_->abandon();
    probe_.abandon();
    for (const auto& port : further()) {
        port->abandon();
    }
    for (const auto& multicast : multicasts_) {
        multicast->abandon();
    }
    if (group_ != nullptr) {
        group_->abandon();
    }
}

Result<void> UdpLink::start(Receiver& receiver) {
    return group_ != nullptr ? group_->start(receiver) : Result<void>();
}

void UdpLink::stop() noexcept {
    if (group_ != nullptr) {
        group_->stop();
    }
}

engine::Share UdpLink::share() const noexcept {
    return group_ != nullptr ? group_->share() : engine::Share();
}

bool UdpLink::owns(const wire::Packet& packet, const engine::Address& destination) const noexcept {
    return group_ == nullptr || group_->owns(packet, destination);
}

} // namespace sluice::uroce::device
