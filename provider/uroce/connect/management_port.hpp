// SPDX-License-Identifier: BSD-3-Clause
//
// What the connection service needs of the device that it serves: a way for management datagrams, the
// time, and hands on its queue pairs. Its implementation calls Service::receive() for each
// datagram that arrives at queue pair 1, and Service::advance() when the time has come.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>

#include "core/result.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/cm/types.hpp"

namespace sluice::uroce::connect {

class ManagementPort {
  public:
    ManagementPort() = default;
    ManagementPort(const ManagementPort&) = delete;
    ManagementPort& operator=(const ManagementPort&) = delete;

    // All are called from any thread, without a lock of the service.
    virtual engine::Nanoseconds now() noexcept = 0;
    // Not reliable: what can't be sent now is lost.
    virtual void send(const cm::OutMad& mad) noexcept = 0;
    // Service::advance() not later than WHEN; an earlier wish that wasn't fulfilled yet stays.
    virtual void wake_at(engine::Nanoseconds when) noexcept = 0;
    // As ibv_modify_qp(); EINVAL for a queue pair of another device.
    virtual int modify_qp(ibv_qp& qp, ibv_qp_attr& attr, int mask) noexcept = 0;
    // Whether a program has the device's UDP port of PEER, an address of this machine. True if that can't be
    // found out. Slow.
    virtual bool is_anybody_at(const engine::Address& peer) noexcept = 0;

    // Before a request for SERVICE leaves for PEER. Where a process of this device listens for it at all of
    // the device's addresses, and PEER may become one, the device is there then.
    virtual void prepare(const engine::Address& /*peer*/, std::uint64_t /*service*/) {}

    // Whether no process has SEAT of ADDRESS.
    virtual bool is_seat_empty(const engine::Address& /*address*/, std::uint32_t /*seat*/) noexcept {
        return true;
    }

    // The process that had the other end of this connection is gone: what the queue pair sends to it fails.
    virtual void peer_is_gone(const engine::Ends& /*ends*/) noexcept {}

    // What there is to see of a peer that doesn't answer.
    virtual cm::Sight look_for(const engine::Ends& /*ends*/) noexcept { return cm::Sight::kSilent; }

    // What follows is as it is where the device has one address, the service's own.

    // Before messages leave from LOCAL, another address of the device's. kNotFound: it isn't.
    virtual Result<void> use(const engine::Address& /*local*/) {
        return Error(ErrorKind::kNotFound, "this device doesn't have that address", EADDRNOTAVAIL);
    }
    // The same for those that ANY means, which is a wildcard address, as far as they can be had.
    virtual void use_all(const engine::Address& /*any*/) {}
    // The first of the family that ours isn't of; all zeros if there is none.
    virtual engine::Address other_family() const noexcept { return {}; }
    // Of LOCAL in the device's GID table. A service's lock may be held.
    virtual std::uint8_t gid_index(const engine::Address& /*local*/) const noexcept { return 0; }

    // This is the child of a fork: nothing of the device is used any more.
    virtual bool gone() const noexcept = 0;

  protected:
    ~ManagementPort() = default;
};

} // namespace sluice::uroce::connect
