// SPDX-License-Identifier: BSD-3-Clause
//
// What carries packets to and from other processes. A device without a link reaches the devices of
// its own process only.
//
// Locks: append(), flush() and deliver() are called with the device's lock held. fetch() is not, so
// that packets are checked while others send; one thread at a time is between fetch() and deliver().
#pragma once

#include "provider/uroce/roce.hpp"
#include "roce/engine/in_packet.hpp"
#include "roce/engine/out_packet.hpp"

namespace sluice::uroce::device {

class Link {
  public:
    // Takes what arrived, packet by packet.
    class Receiver {
      public:
        Receiver() = default;
        Receiver(const Receiver&) = delete;
        Receiver& operator=(const Receiver&) = delete;
        virtual void packet(const engine::InPacket& in) noexcept = 0;

      protected:
        ~Receiver() = default;
    };

    Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    virtual ~Link() = default;

    // Copies a packet into the batch, DAMAGED with a checksum that is wrong. False: it can't be sent, and is
    // lost.
    virtual bool append(const engine::OutPacket& packet, bool damaged) noexcept = 0;
    // Sends the batch. False: there is no room now, the rest waits to be flushed again.
    virtual bool flush() noexcept = 0;
    // Takes what has arrived, up to a bound of its own, without waiting. False: there is nothing.
    virtual bool fetch() noexcept = 0;
    // Hands over what fetch() took.
    virtual void deliver(Receiver& receiver) noexcept = 0;
    // Readable when something has arrived.
    virtual int fd() const noexcept = 0;
    // This is the child of a fork: the address is the parent's alone.
    virtual void abandon() noexcept = 0;
};

} // namespace sluice::uroce::device
