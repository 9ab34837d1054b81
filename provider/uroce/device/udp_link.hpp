// SPDX-License-Identifier: BSD-3-Clause
//
// The way to other processes and hosts: a UDP port behind the device's seam, and the group of the processes
// that share the address. A further address of the device has a port of its own from its first use on.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "core/sync.hpp"
#include "provider/uroce/device/gid_table.hpp"
#include "provider/uroce/device/link.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/group/group.hpp"
#include "roce/socket/multicast_port.hpp"
#include "roce/socket/port_probe.hpp"
#include "roce/socket/udp_port.hpp"

namespace sluice::uroce::device {

class UdpLink final : public Link {
  public:
    // MEMORY, RECORDER and COUNTERS outlive the link; the latter two may be null.
    static Result<std::unique_ptr<UdpLink>> open(const engine::Address& local, engine::Memory& memory,
                                                 socket::PcapRecorder* recorder,
                                                 socket::PortCounters* counters);

    // GROUP is null where the address is this process's alone.
    UdpLink(std::unique_ptr<group::Group> group, std::unique_ptr<socket::UdpPort> port,
            engine::Memory& memory, socket::PcapRecorder* recorder, socket::PortCounters* counters) noexcept
        : group_(std::move(group)), port_(std::move(port)), memory_(memory), recorder_(recorder),
          counters_(counters), probe_(port_->network_device().index) {}

    bool append(const engine::OutPacket& packet, bool damaged) noexcept override;
    bool flush() noexcept override;
    bool fetch() noexcept override;
    void deliver(Receiver& receiver) noexcept override;
    int fd() const noexcept override { return port_->descriptor(); }
    Result<int> use(const engine::Address& address) override;
    bool hears(const engine::Address& address) const noexcept override { return port_at(address) != nullptr; }
    void abandon() noexcept override;

    Result<int> join(const engine::Address& group) override;
    void leave_groups(Listens listens, const void* whom) noexcept override;
    Result<void> start(Receiver& receiver) override;
    void stop() noexcept override;
    engine::Share share() const noexcept override;
    bool owns(const wire::Packet& packet, const engine::Address& destination) const noexcept override;
    void watch(const engine::Address& address, std::uint32_t peer_qpn) noexcept override {
        if (group_ != nullptr) {
            group_->watch(address, peer_qpn);
        }
    }
    void hear(const engine::Address& address, std::uint32_t peer_qpn) noexcept override {
        if (group_ != nullptr) {
            group_->hear(address, peer_qpn);
        }
    }
    engine::Peer ask(const engine::Ends& ends) noexcept override {
        return group_ != nullptr ? group_->ask(ends) : engine::Peer::kUnknown;
    }
    bool is_empty(const engine::Address& address, std::uint32_t seat) noexcept override {
        return group_ == nullptr || group_->is_empty(address, seat);
    }
    engine::Port look_at_port(const engine::Ends& ends, engine::Nanoseconds now) noexcept override {
        return probe_.look(ends.local, ends.remote, now);
    }
    bool is_shared(const engine::Address& address) const noexcept override {
        return group_ != nullptr && group_->has(address);
    }
    cm::PortClaims* port_claims() noexcept override { return group_.get(); }

  private:
    Result<std::unique_ptr<socket::UdpPort>> open_further(const engine::Address& address);
    std::span<const std::unique_ptr<socket::UdpPort>> further() const noexcept {
        // Partner: the release in use().
        return {further_.data(), further_count_.load(std::memory_order_acquire)};
    }
    socket::UdpPort* port_at(const engine::Address& address) const noexcept;

    std::unique_ptr<group::Group> group_;
    std::unique_ptr<socket::UdpPort> port_;
    engine::Memory& memory_;
    socket::PcapRecorder* recorder_;
    socket::PortCounters* counters_;
    socket::PortProbe probe_;
    Mutex adding_;
    // Only the first further_count_ are looked at; they don't change any more.
    std::array<std::unique_ptr<socket::UdpPort>, group::kMaxFurther> further_;
    std::atomic<std::size_t> further_count_{0};
    std::vector<std::unique_ptr<socket::MulticastPort>> multicasts_;
};

} // namespace sluice::uroce::device
