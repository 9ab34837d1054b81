// SPDX-License-Identifier: BSD-3-Clause
//
// All that one device counts in one process, as a row of numbers with names. Each part counts into its own
// structure and knows nothing of the others; here they lie behind each other, in memory that `sluice stat`
// can read.
//
// A name stays what it is in all versions: programs look for it. "path.udp.bytes_sent" is the member
// bytes_sent of udp, a member of path.
#pragma once

#include <array>
#include <cstddef>

#include "core/count.hpp"
#include "core/sync_counts.hpp"
#include "provider/uroce/roce.hpp"
#include "roce/cm/types.hpp"
#include "roce/engine/context.hpp"
#include "roce/near/same_host.hpp"
#include "roce/socket/counters.hpp"

namespace sluice::uroce::device {

// One way between devices. Each packet that leaves or arrives counts, so that what was sent twice counts
// twice; bytes are those of the program, without headers and padding.
struct PathCounters {
    Count packets_sent;
    Count bytes_sent;
    Count packets_received;
    Count bytes_received;

    void sent(std::uint64_t bytes) noexcept {
        ++packets_sent;
        bytes_sent.add_any(bytes);
    }
    void received(std::uint64_t bytes) noexcept {
        ++packets_received;
        bytes_received.add_any(bytes);
    }
};

struct DeliveryCounters {
    Count posted;   // into another device's inbox: its lock was another thread's
    Count lost;     // its inbox was full
    Count damaged;  // by an injected fault: delivered to nobody
    Count no_route; // nobody here has the address, and there is no link, or it has no room
};

struct DeviceCounters {
    PathCounters loop;   // within the process
    PathCounters memory; // to other processes of this host
    PathCounters udp;    // to other hosts, and to processes that can't be reached otherwise
    near::DirectCounters direct;
    DeliveryCounters deliveries;
    engine::Counters transport;
    socket::PortCounters port;
    cm::ManagerCounters connections;
    SyncCounts syncs; // of calls that keep its memory coherent
};

inline constexpr std::size_t kCounters = sizeof(DeviceCounters) / sizeof(Count);
static_assert(sizeof(DeviceCounters) % sizeof(Count) == 0);

// In the order of their places. Null: a place without a counter.
using CounterNames = std::array<const char*, kCounters>;
const CounterNames& counter_names() noexcept;

} // namespace sluice::uroce::device
