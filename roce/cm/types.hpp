// SPDX-License-Identifier: BSD-3-Clause
//
// The words of the connection manager: what is asked of it, what it tells, and what a queue pair
// must be told (IBTA vol 1, chapter 12; annex A11 for IP addresses). Timeouts are the standard's
// codes: 4.096 us times two to the code.
#pragma once

#include <algorithm>
#include <array>

#include "core/count.hpp"
#include "core/random.hpp"
#include "roce/cm/port_claims.hpp"
#include "roce/engine/share.hpp"
#include "roce/engine/types.hpp"
#include "roce/wire/cm.hpp"
#include "roce/wire/psn.hpp"

namespace sluice::roce::cm {

using Mad = std::array<std::uint8_t, wire::kMadBytes>;

// A connection's own communication id, random; its holder destroys it.
enum class ConnectionId : std::uint32_t { kNone = 0 };
enum class ListenerId : std::uint32_t { kNone = 0 };

// Reasons of a REJ (12.6.7.2) that are sent or looked at here.
namespace reason {
inline constexpr std::uint16_t kNoResources = 3;
inline constexpr std::uint16_t kTimeout = 4;
inline constexpr std::uint16_t kUnsupported = 5;
inline constexpr std::uint16_t kInvalidCommId = 6;
inline constexpr std::uint16_t kInvalidServiceId = 8;
inline constexpr std::uint16_t kInvalidTransport = 9;
inline constexpr std::uint16_t kStaleConnection = 10;
inline constexpr std::uint16_t kInvalidGid = 12;
inline constexpr std::uint16_t kInvalidMtu = 26;
inline constexpr std::uint16_t kConsumer = 28;
// No message has it: the peer's process has ended.
inline constexpr std::uint16_t kProcessEnded = 0xffff;
} // namespace reason

// Which message a REJ refuses, or an MRA holds up.
enum class Refused : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

// Status of a SIDR_REP (12.11.2).
inline constexpr std::uint8_t kSidrValid = 0, kSidrNotSupported = 1, kSidrRejected = 2;

// What private data holds, in bytes: a message always carries all of it.
inline constexpr std::size_t kIpRequestData = 56, kPlainRequestData = 92, kReplyData = 196, kRejectData = 148;
inline constexpr std::size_t kSidrRequestData = 180, kSidrReplyData = 136, kMaxPrivateData = 196;

inline constexpr std::uint8_t kMaxCode = 31;

constexpr engine::Nanoseconds time_of(std::uint8_t code) noexcept {
    return engine::Nanoseconds{4096} << std::min(code, kMaxCode);
}

// The time to wait for an acknowledgement, as a code: the peer's delay and the way there and back.
// Codes are logarithms, so their sum is the larger one, or one more if the other comes close.
constexpr std::uint8_t ack_timeout_code(std::uint8_t ack_delay, std::uint8_t packet_lifetime) noexcept {
    const int both_ways = packet_lifetime + 1;
    const int code = both_ways >= ack_delay ? both_ways + (ack_delay >= both_ways - 1 ? 1 : 0)
                                            : ack_delay + (both_ways >= ack_delay - 1 ? 1 : 0);
    return static_cast<std::uint8_t>(std::min(code, int{kMaxCode}));
}

// How patient a connection is. Asked for by the active side; the passive side learns it from REQ.
// The defaults are rdma_cm's.
struct Timing {
    std::uint8_t response_timeout = 20; // for one answer: 4.3 s
    std::uint8_t packet_lifetime = 18;  // one way: 1.1 s
    std::uint8_t max_retries = 15;
    engine::Nanoseconds give_up_after = 0; // connecting as a whole; 0: when the retries are used up
};

struct ConnectParams {
    engine::Address local;
    engine::Address remote;
    std::uint64_t service_id = 0;
    std::uint16_t local_port = 0; // goes into rdma_cm's header, if the service is of its port spaces
    std::uint32_t qpn = 0;
    std::uint8_t responder_resources = 0; // reads and atomics that the peer may have open here
    std::uint8_t initiator_depth = 0;     // that we want to have open there
    bool flow_control = false;
    bool srq = false;
    std::uint8_t retry_count = 7; // more than 7 is taken for 7 here and below, as in rdma_cm
    std::uint8_t rnr_retry_count = 7;
    std::uint8_t path_mtu = 3; // 1 is 256 bytes, 5 is 4096
    Timing timing;
    std::span<const std::uint8_t> private_data;
    std::uint64_t cookie = 0; // comes back with each event
};

struct AcceptParams {
    std::uint32_t qpn = 0;
    // At most what the peer offered; more is cut down to it.
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    bool flow_control = false;
    bool srq = false;
    std::uint8_t rnr_retry_count = 7; // for the peer
    std::uint32_t qkey = 0;           // of a datagram service
    std::span<const std::uint8_t> private_data;
};

// A look-up of a datagram service.
struct ResolveParams {
    engine::Address local;
    engine::Address remote;
    std::uint64_t service_id = 0;
    std::uint16_t local_port = 0;
    Timing timing;
    std::span<const std::uint8_t> private_data;
    std::uint64_t cookie = 0;
};

inline constexpr engine::Address kAnyIpv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};

struct ListenParams {
    std::uint64_t service_id = 0;
    engine::Address local;       // all zero: any of ours, or kAnyIpv4
    std::uint32_t backlog = 128; // requests that wait for an answer of the program
    std::uint64_t cookie = 0;
};

// What a queue pair needs to get ready to receive and to send.
struct QpSettings {
    engine::Address local;
    engine::Address remote;
    std::uint32_t dest_qpn = 0;
    std::uint8_t path_mtu = 0;
    std::uint32_t recv_psn = 0;
    std::uint32_t send_psn = 0;
    std::uint8_t max_dest_rd_atomic = 0;
    std::uint8_t max_rd_atomic = 0;
    std::uint8_t timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    std::uint8_t min_rnr_timer = 0; // as rdma_cm: 655 ms
    std::uint32_t flow_label = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
};

enum class EventType : std::uint8_t {
    kConnectRequest,  // to a listener: accept, reject or destroy `id`
    kConnectResponse, // the peer accepted: make the queue pair ready, then ready(), or reject()
    kEstablished,     // the passive side's; the active side's is that ready() succeeds
    kRejected,
    kUnreachable, // no answer
    kDisconnected,
    kTimewaitExit, // the queue pair's number may be used again
    kResolved      // the datagram service answered
};

struct Event {
    EventType type = EventType::kConnectRequest;
    ConnectionId id = ConnectionId::kNone;
    ListenerId listener = ListenerId::kNone; // of kConnectRequest
    std::uint64_t cookie = 0;                // the connection's, or of kConnectRequest the listener's
    std::uint16_t reason = 0;                // of a REJ; the status of a SIDR_REP; kTimeout
    bool datagram = false;
    engine::Address local;
    engine::Address peer;
    std::uint16_t local_port = 0;
    std::uint16_t peer_port = 0;
    std::uint32_t qpn = 0;                // the peer's
    std::uint32_t qkey = 0;               // of kResolved
    std::uint8_t responder_resources = 0; // already seen from here: what we are asked to offer
    std::uint8_t initiator_depth = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry_count = 0;
    bool flow_control = false;
    bool srq = false;
    std::uint8_t private_bytes = 0;
    std::array<std::uint8_t, kMaxPrivateData> private_data{};
};

struct OutMad {
    engine::Address source;
    engine::Address destination;
    Mad bytes{};
};

enum class State : std::uint8_t {
    kReqSent,     // active: waits for REP, MRA or REJ
    kReqReceived, // passive: waits for the program
    kRepSent,     // passive: waits for RTU
    kRepReceived, // active: waits for the program to make its queue pair ready
    kEstablished,
    kDreqSent, // waits for DREP
    kTimeWait, // over; late copies are still answered, and the queue pair's number isn't free yet
    kClosed,   // over; kept because the program hasn't let go of it
    kSidrSent, // a look-up waits for its answer
};
inline constexpr std::size_t kStates = 9;

// What happened, and why messages were dropped.
struct ManagerCounters {
    Count mads_in;
    Count mads_out;
    Count repeats_out;   // because no answer came
    Count duplicates_in; // answered again, or not, without a second effect
    Count dropped_malformed;
    Count dropped_unknown; // ids, ports or a state to which the message says nothing
    Count dropped_backlog; // no room at the listener, or one that may be back in a moment
    Count dropped_busy;    // events or answers had no room
    Count rejects_out;
    Count stale_in;            // used a name that a connection has
    Count time_wait_cut_short; // to make room
    Count rejects_in;
    Count established;                  // connections that got as far as that
    Count ended;                        // of those
    std::array<Count, kStates> entered; // by State
};

// What the driver knows of a peer that doesn't answer.
enum class Sight : std::uint8_t {
    kHere,    // on this machine, and its process lives
    kGone,    // on this machine, and its process has ended
    kRefused, // elsewhere, where nobody has the port, says somebody
    kSilent   // elsewhere
};

struct ManagerConfig {
    std::uint64_t guid = 0;               // of the device
    RandomKey secret{};                   // what ids, sequence numbers and ports come from
    std::uint32_t max_connections = 4096; // those that are ending included
    std::uint32_t max_listeners = 256;
    std::uint8_t max_path_mtu = 5;
    std::uint8_t max_rd_atomic = 16; // both ways
    std::uint8_t ack_delay = 15;     // as rxe: 134 ms
    // An established connection's peer is asked so often whether it still has that; 0: never. Not on
    // loopback.
    engine::Nanoseconds keepalive = 0;
    engine::Share share{};               // of the ids that connections may have
    PortClaims* claims = nullptr;        // outlives the manager; null: every port is this process's
    ManagerCounters* counters = nullptr; // where it counts; outlives it. Null: in itself
};

} // namespace sluice::roce::cm
