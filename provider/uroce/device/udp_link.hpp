// SPDX-License-Identifier: BSD-3-Clause
//
// The way to other processes and hosts: a UDP port behind the device's seam.
#pragma once

#include "provider/uroce/device/link.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/socket/udp_port.hpp"

namespace sluice::uroce::device {

class UdpLink final : public Link {
  public:
    // MEMORY and RECORDER, which may be null, outlive the link.
    static Result<std::unique_ptr<UdpLink>> open(const engine::Address& local, engine::Memory& memory,
                                                 socket::PcapRecorder* recorder);

    explicit UdpLink(std::unique_ptr<socket::UdpPort> port) noexcept : port_(std::move(port)) {}

    bool append(const engine::OutPacket& packet, bool damaged) noexcept override {
        return port_->sender().append(packet, damaged);
    }
    bool flush() noexcept override { return port_->sender().flush(); }
    bool fetch() noexcept override;
    void deliver(Receiver& receiver) noexcept override;
    int fd() const noexcept override { return port_->descriptor(); }
    void abandon() noexcept override;

  private:
    std::unique_ptr<socket::UdpPort> port_;
};

} // namespace sluice::uroce::device
