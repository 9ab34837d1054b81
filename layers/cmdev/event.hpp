// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>

namespace sluice::layers::cmdev {

// The kernel's numbers, which librdmacm has as RDMA_CM_EVENT_...: their header and that of the commands
// can't be included together.
enum class EventType : std::uint32_t {
    kAddrResolved = 0,
    kRouteResolved = 2,
    kConnectRequest = 4,
    kConnectResponse = 5,
    kConnectError = 6,
    kUnreachable = 7,
    kRejected = 8,
    kEstablished = 9,
    kDisconnected = 10,
    kMulticastJoin = 12,
    kTimewaitExit = 15,
    kUser = 18,
    kInternal = 19,
};

// An event of ours on its way to librdmacm.
struct Event {
    std::uint32_t handle = 0; // of the id that counts it; for a request, the listener
    rdma_ucm_event_resp response{};
};

// Of the id with HANDLE.
inline Event make_event(std::uint32_t handle, EventType type) noexcept {
    Event event;
    event.handle = handle;
    event.response.id = handle;
    event.response.event = static_cast<std::uint32_t>(type);
    return event;
}

} // namespace sluice::layers::cmdev
