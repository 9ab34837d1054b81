// SPDX-License-Identifier: BSD-3-Clause
//
// What the group's thread reports to the device, and asks of it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/descriptor.hpp"
#include "roce/engine/in_packet.hpp"
#include "roce/engine/share.hpp"

namespace sluice::roce::group {

// Takes packets that other members read, and those of the common socket, and what processes of this host
// publish; called from the group's thread.
class Arrivals {
  public:
    Arrivals() = default;
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;
    // Comes before some of them. What the seat's own socket has by now was sent before them, if by the same
    // sender: it is to be looked at first, or a connection would end before its last message.
    virtual void catch_up() noexcept = 0;
    virtual void arrived(const engine::InPacket& in) noexcept = 0;
    // Whether queue pair QPN is connected to queue pair PEER_QPN of PEER; that one's process wants to know.
    virtual bool is_connected(std::uint32_t qpn, const engine::Address& peer,
                              std::uint32_t peer_qpn) noexcept = 0;
    // The answer to ask(): whether the peer has the connection of ENDS, which may be over here by now.
    virtual void peer_told(const engine::Ends& ends, bool connected) noexcept = 0;
    // The process that had share ITS of the numbers of ADDRESS has ended or left. What it sent before has
    // been looked at.
    virtual void member_ended(const engine::Address& address, const engine::Share& its) noexcept = 0;
    // No process is at ADDRESS, of this network namespace. One that has been heard from there has ended; one
    // that has only told its number may still come: an address may be used from its first connection on.
    virtual void nobody_at(const engine::Address& address) noexcept = 0;
    // First and last of all.
    virtual void thread_begins() noexcept {}
    virtual void thread_ends() noexcept {}
    // What each process that this one has a line to gets from it, once; asked for when it is about to be
    // sent. -1: nothing.
    virtual int board() const noexcept { return -1; }
    virtual std::uint64_t board_id() const noexcept { return 0; }
    // What a process gets for its board, if that is taken: it may touch this one's memory. If it gets RING,
    // it may write packets there, and BELL wakes this process. Both stay the device's. This process's board
    // has a sign for that one at PLACE.
    struct Admission {
        bool is_taken = false;
        int ring = -1;
        int bell = -1;
        std::uint64_t place = 0;
    };
    // Process PID has sent BOARD. PID is as this process sees it, and 0 if it doesn't.
    virtual Admission board_came(const Descriptor& /*board*/, pid_t /*pid*/) noexcept { return {}; }
    // The process with board ID has taken this one's, and gives that. RING and BELL are empty if it takes no
    // packets so.
    struct Admittance {
        std::uint64_t id = 0;
        Descriptor ring{};
        Descriptor bell{};
        std::uint64_t place = 0;
    };
    virtual void board_taken(pid_t /*pid*/, Admittance /*given*/) noexcept {}

  protected:
    ~Arrivals() = default;
};

} // namespace sluice::roce::group
