// SPDX-License-Identifier: BSD-3-Clause
//
// Unreliable datagrams (IBTA vol 1, 9.8.3): one packet per message, no answers. A send is complete
// when its packet has left, which settle() tells; a message that fits no receive is dropped and counted. A
// receive begins with the forty bytes of the global route header, which the port makes from the IP header.
#pragma once

#include "roce/engine/context.hpp"
#include "roce/engine/receive_queue.hpp"
#include "roce/engine/send_queue.hpp"
#include "roce/wire/ip.hpp"
#include "roce/wire/psn.hpp"

namespace sluice::roce::engine {

class Datagram {
  public:
    Datagram(QpContext& context, SendQueue& sends, ReceiveQueue& receives)
        : context_(context), sends_(sends), receives_(receives) {}

    void start() noexcept { next_psn_ = context_.attr.send_psn & wire::kPsnMask; }
    // The send queue was emptied.
    void stop() noexcept { given_out_ = 0; }
    // A failed send puts the queue pair into the send error state.
    bool transmit(OutPacket& out) noexcept;
    // All packets that were given out have left: their sends complete.
    void settle() noexcept;
    bool unsettled() const noexcept { return given_out_ != 0; }
    bool failed() const noexcept { return failed_; }
    void clear_failure() noexcept { failed_ = false; }
    void on_packet(const wire::Packet& packet, const wire::Grh& grh) noexcept;

  private:
    bool fail(Status status) noexcept;

    QpContext& context_;
    SendQueue& sends_;
    ReceiveQueue& receives_;
    std::uint32_t next_psn_ = 0;
    std::uint32_t given_out_ = 0; // sends whose packets may not have left yet
    bool failed_ = false;
    Receive receive_;
};

} // namespace sluice::roce::engine
