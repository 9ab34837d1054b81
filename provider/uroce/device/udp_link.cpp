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
    return std::make_unique<UdpLink>(shared ? *std::move(shared) : nullptr, *std::move(port), recorder);
}

bool UdpLink::fetch() noexcept {
    bool any = port_->receiver().fetch(socket::Receiver::kMaxMessages) != 0;
    for (const auto& multicast : multicasts_) {
        any = multicast->receiver().fetch(socket::Receiver::kMaxMessages) != 0 || any;
    }
    return any;
}

void UdpLink::deliver(Receiver& receiver) noexcept {
    port_->receiver().deliver([&](const engine::InPacket& in) {
        if (owns(in.packet)) {
            receiver.packet(in);
        } else {
            group_->hand_on(in);
        }
    });
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
    for (const auto& multicast : multicasts_) {
        multicast->abandon();
    }
    if (group_ != nullptr) {
        group_->abandon();
    }
}

Result<void> UdpLink::start(Receiver& receiver) {
    receiver_ = &receiver;
    return group_ != nullptr ? group_->start(*this) : Result<void>();
}

void UdpLink::stop() noexcept {
    if (group_ != nullptr) {
        group_->stop();
    }
}

engine::Share UdpLink::share() const noexcept {
    return group_ != nullptr ? group_->share() : engine::Share();
}

bool UdpLink::owns(const wire::Packet& packet) const noexcept {
    return group_ == nullptr || group_->owns(packet);
}

} // namespace sluice::uroce::device
