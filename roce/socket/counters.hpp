// SPDX-License-Identifier: BSD-3-Clause
//
// What a port has counted. One thread adds to each counter, any may read it.
#pragma once

#include "core/count.hpp"

namespace sluice::roce::socket {

struct SendCounters {
    Count packets;         // handed over to the kernel
    Count calls;           // of sendmmsg()
    Count gso_sends;       // messages of several packets
    Count lost;            // refused by the kernel: no memory, no route, no room
    Count too_long;        // of those: longer than the path's MTU
    Count page_gone;       // not sent because the program has unmapped the payload
    Count no_segmentation; // runs that had to be sent packet by packet
};

struct ReceiveCounters {
    Count packets;      // passed on
    Count calls;        // of recvmmsg() that brought something
    Count gro_receives; // messages of several packets
    Count truncated;    // too short for a packet, or longer than our buffer
    Count malformed;    // headers that make no sense
    Count solved;       // their IPv4 identification wasn't the expected one, but there is one that fits
    Count bad_icrc;     // fits no identification
    Count implausible;  // fits one that the source wouldn't use now
    Count overflowed;   // dropped by the kernel, because the socket was full
};

struct PortCounters {
    SendCounters sent;
    ReceiveCounters received;
};

} // namespace sluice::roce::socket
