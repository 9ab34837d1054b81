// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/udp_link.hpp"

namespace sluice::uroce::device {

Result<std::unique_ptr<UdpLink>> UdpLink::open(const engine::Address& local, engine::Memory& memory,
                                               socket::PcapRecorder* recorder) {
    auto port = socket::UdpPort::open({.local = local, .recorder = recorder}, memory);
    if (!port) {
        return std::move(port).error();
    }
    return std::make_unique<UdpLink>(std::move(*port));
}

bool UdpLink::fetch() noexcept {
    return port_->receiver().fetch(socket::Receiver::kMaxMessages) != 0;
}

void UdpLink::deliver(Receiver& receiver) noexcept {
    port_->receiver().deliver([&](const engine::InPacket& in) { receiver.packet(in); });
}

void UdpLink::abandon() noexcept {
    port_->abandon();
}

} // namespace sluice::uroce::device
