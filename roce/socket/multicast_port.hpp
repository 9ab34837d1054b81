// SPDX-License-Identifier: BSD-3-Clause
//
// Packets to a multicast group: a UDP socket bound to the group and port 4791, joined on one interface. A
// socket bound to an address of a host hears none of them. Any number of processes may have such a socket;
// the kernel gives each of them a copy. What leaves goes through the address's own socket.
//
// Thread safety: as the Receiver's.
#pragma once

#include <memory>

#include "core/descriptor.hpp"
#include "roce/socket/receiver.hpp"

namespace sluice::roce::socket {

class MulticastPort {
  public:
    // RECORDER may be null.
    static Result<std::unique_ptr<MulticastPort>> join(const engine::Address& group,
                                                       const NetworkDevice& device, PcapRecorder* recorder);

    const engine::Address& group() const noexcept { return group_; }
    int descriptor() const noexcept { return socket_.get(); }
    Receiver& receiver() noexcept { return receiver_; }
    void abandon() noexcept { socket_.reset(); }

  private:
    MulticastPort(Descriptor socket, const engine::Address& group, PcapRecorder* recorder)
        : socket_(std::move(socket)), group_(group), receiver_(socket_.get(), group, recorder) {}

    Descriptor socket_;
    engine::Address group_;
    Receiver receiver_;
};

} // namespace sluice::roce::socket
