// SPDX-License-Identifier: BSD-3-Clause
//
// What carries packets to and from other processes, and what those that share the address agree on. A device
// without a link reaches the devices of its own process only.
//
// Locks: append(), flush() and deliver() are called with the device's lock held. fetch() is not, so
// that packets are checked while others send; one thread at a time is between fetch() and deliver().
#pragma once

#include "core/result.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/cm/port_claims.hpp"
#include "roce/engine/in_packet.hpp"
#include "roce/engine/out_packet.hpp"
#include "roce/engine/share.hpp"
#include "roce/group/arrivals.hpp"

namespace sluice::uroce::device {

// Of one device that it hears: each costs a descriptor.
inline constexpr std::uint32_t kMaxMulticastGroups = 64;

class Link {
  public:
    // Takes what arrived, packet by packet; and what a thread of the link's, which holds nothing, reports.
    // Before some of it that thread calls catch_up(): what fetch() finds by now came first.
    class Receiver : public group::Arrivals {
      public:
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
    // Before a packet leaves from ADDRESS, a further one of the device's, or can arrive there. Any thread's.
    // Gives a descriptor that is readable when something has arrived there, the link's; -1: it is used
    // already.
    virtual Result<int> use(const engine::Address& /*address*/) {
        return Error(ErrorKind::kNotSupported, "this device has one address only");
    }
    // Whether packets are sent from ADDRESS and taken there. Any thread's.
    virtual bool hears(const engine::Address& /*address*/) const noexcept { return true; }
    // This is the child of a fork: the address is the parent's alone.
    virtual void abandon() noexcept = 0;

    // Hears the packets to GROUP, too: fetch() and deliver() have them. Not while a thread is between those
    // two. Gives a descriptor that is readable when one has arrived, and the link's. kExists: it is heard
    // already.
    virtual Result<int> join(const engine::Address& /*group*/) {
        return Error(ErrorKind::kNotSupported, "this device has no way to multicast groups");
    }
    // Of those that it hears, it leaves all that LISTENS doesn't say yes to.
    using Listens = bool (*)(const void* whom, const engine::Address& group) noexcept;
    virtual void leave_groups(Listens /*listens*/, const void* /*whom*/) noexcept {}

    // What follows is as it is where the address is this process's alone.

    // Between the two, RECEIVER may get packets from a thread of the link's.
    virtual Result<void> start(Receiver& /*receiver*/) { return {}; }
    virtual void stop() noexcept {}
    // The numbers that this process may give out.
    virtual engine::Share share() const noexcept { return {}; }
    // Whether a packet to DESTINATION, one of the device's addresses, is for this process. Its payload is
    // looked at for queue pair 1 only.
    virtual bool owns(const wire::Packet& /*packet*/, const engine::Address& /*destination*/) const noexcept {
        return true;
    }
    // A queue pair is connected to queue pair PEER_QPN of ADDRESS: the receiver hears of the end of its
    // process, if that is one of this machine and this user.
    virtual void watch(const engine::Address& /*address*/, std::uint32_t /*peer_qpn*/) noexcept {}
    // That one has been heard for the first time.
    virtual void hear(const engine::Address& /*address*/, std::uint32_t /*peer_qpn*/) noexcept {}
    // Whether the peer's process lives. It is asked whether it has the connection, and the receiver told its
    // answer.
    virtual engine::Peer ask(const engine::Ends& /*ends*/) noexcept { return engine::Peer::kUnknown; }
    // Whether no process has SEAT of ADDRESS.
    virtual bool is_empty(const engine::Address& /*address*/, std::uint32_t /*seat*/) noexcept {
        return true;
    }
    // As engine::EventSink's; with the device's lock held.
    virtual engine::Port look_at_port(const engine::Ends& /*ends*/, engine::Nanoseconds /*now*/) noexcept {
        return engine::Port::kNotAsked;
    }
    // Whether ADDRESS is a further one that processes of the group use.
    virtual bool is_shared(const engine::Address& /*address*/) const noexcept { return false; }
    // Of rdma_cm's ports; null: no other process has any.
    virtual cm::PortClaims* port_claims() noexcept { return nullptr; }
};

} // namespace sluice::uroce::device
