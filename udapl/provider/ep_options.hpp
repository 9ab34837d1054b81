// SPDX-License-Identifier: BSD-3-Clause
//
// The states, options and setups of endpoints.
#pragma once

#include <memory>
#include <optional>

#include "ibverbs-glue/connection.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/memory.hpp"
#include "udapl/provider/segments.hpp"
#include "udapl/provider/srq.hpp"

namespace sluice::dapl {

// The numbers are DAT's own, in each of its versions.
enum class EpState : std::uint8_t {
    kUnconnected = 0,
    kReserved = 2,   // by a service point
    kPassive = 4,    // the request to the service point has come
    kConnecting = 6, // the program has asked a peer
    kConnected = 9,
    kDisconnecting = 10,
    kDisconnected = 11,
    kAccepting = 12,
};

// WQEs that are reserved for our own use: the drain marker.
constexpr int kOwnRequests = 1;

struct EpOptions {
    std::uint64_t max_message = kMaxMessage;
    std::uint64_t max_rdma = kMaxMessage;
    std::uint32_t max_receives = 16; // with a shared queue the hard watermark
    std::uint32_t max_requests = 16;
    std::uint32_t max_receive_segments = 4;
    std::uint32_t max_request_segments = 4;
    std::uint32_t max_read_segments = 4;
    std::uint32_t max_write_segments = 4;
    std::uint32_t soft_watermark = Watermarks::kInfinite;
    std::uint8_t max_reads_in = 4;
    std::uint8_t max_reads_out = 4;
    NotifyModel receive_model = NotifyModel::kEach;
    NotifyModel request_model = NotifyModel::kEach;
    // As the program gave them: two words of DAT's mean the first model.
    unsigned receive_flags = 0;
    unsigned request_flags = 0;
};

// Empty where the endpoint shall have none.
struct EpEvds {
    Ref<IaContext> lender{}; // of the dispatcher for connections, where that is another adapter's
    Ref<Evd> receive;
    Ref<Evd> request;
    Ref<Evd> connect;
};

// The setup of an endpoint, which modify() changes.
struct EpSetup {
    Ref<Pz> pz;
    EpEvds evds;
    EpOptions options;
    Ref<Srq> srq{};              // where it receives from; empty: a queue of its own
    std::unique_ptr<Evd> unused; // a queue pair needs queues even where the program has none
};

// The members that are to be others; for dispatchers an empty one means none.
struct EpChange {
    std::optional<Ref<Pz>> pz;
    std::optional<Ref<Evd>> receive;
    std::optional<Ref<Evd>> request;
    std::optional<Ref<Evd>> connect;
    EpOptions options;
    bool needs_unconnected = false; // a service point has no objection to the others
};

// The peer of an endpoint.
struct EpPeer {
    glue::Address address;
    std::uint64_t qualifier = 0; // the program's, or else the port
};

// The answer to a query, of one moment.
struct EpView {
    EpState state;
    EpOptions options;
    void* pz;
    void* receive;
    void* request;
    void* connect;
    void* srq;
    const glue::Address* peer; // null where none is known; it stays where it is
    std::uint64_t peer_qualifier;
    std::uint16_t local_port;
};

enum class EpRequest { kSend, kWrite, kRead, kWriteImmediate, kFetchAdd, kCompareSwap };

struct RemoteSegment {
    std::uint32_t key;
    std::uint64_t address;
    std::uint64_t length;
};

// What some requests carry beside their segments.
struct RequestExtras {
    std::uint32_t immediate = 0; // as it shall be on the wire
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
};

// How many receives an endpoint has: with the program's to take, and from the first of them to the last.
struct ReceiveUse {
    std::uint32_t allocated;
    std::uint32_t span;
};

} // namespace sluice::dapl
