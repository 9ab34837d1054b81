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
                                               socket::PcapRecorder* recorder) {
    const socket::PortConfig config{.local = local, .recorder = recorder};
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
    return std::make_unique<UdpLink>(shared ? *std::move(shared) : nullptr, *std::move(port));
}

bool UdpLink::fetch() noexcept {
    return port_->receiver().fetch(socket::Receiver::kMaxMessages) != 0;
}

void UdpLink::deliver(Receiver& receiver) noexcept {
    port_->receiver().deliver([&](const engine::InPacket& in) {
        if (owns(in.packet)) {
            receiver.packet(in);
        } else {
            group_->hand_on(in);
        }
    });
}

void UdpLink::abandon() noexcept {
    port_->abandon();
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
