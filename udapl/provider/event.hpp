// SPDX-License-Identifier: BSD-3-Clause
//
// The events that a dispatcher queues, independent of the version of DAT.
#pragma once

#include <cstdint>

namespace sluice::dapl {

class DtoRing;

// The streams of events that a dispatcher takes: bits, DAT's own in each of its versions.
constexpr unsigned kSoftwareStream = 0x001;
constexpr unsigned kRequestStream = 0x010;
constexpr unsigned kDtoStream = 0x020;
constexpr unsigned kConnectionStream = 0x040;
constexpr unsigned kBindStream = 0x080;
constexpr unsigned kAsyncStream = 0x100;
constexpr unsigned kEveryStream = 0x1f1;

enum class EventKind : std::uint8_t {
    kSoftware,      // OBJECT is the program's pointer
    kEvdOverflow,   // OBJECT is the dispatcher
    kEpBroken,      // OBJECT is the endpoint: its queue pair has failed by itself
    kSrqLow,        // OBJECT is the shared receive queue: few buffers are left
    kSrqBroken,     // OBJECT is the shared receive queue: the device can't use it any more
    kEpHeldTooMany, // OBJECT is the endpoint: its soft watermark was passed
    kEpLastReceive, // OBJECT is the endpoint: it takes no more from its shared queue
    kIaGone,        // OBJECT is the adapter: its device is lost
    kDto,           // OBJECT is the endpoint, for these and the following
    kEstablished,
    kPeerRejected,
    kNonPeerRejected,
    kAcceptError,
    kDisconnected,
    kBroken,
    kTimedOut,
    kUnreachable,
    kBind,    // OBJECT is the remote memory region
    kRequest, // OBJECT is the connection request, SOURCE the service point
};

// The numbers are DAT's own, in each of its versions.
enum class DtoStatus : std::uint8_t {
    kSuccess,
    kFlushed,
    kLocalLength,
    kLocalEndpoint,
    kLocalProtection,
    kBadResponse,
    kRemoteAccess,
    kRemoteResponder,
    kTransport,
    kReceiverNotReady,
    kPartialPacket,
    kBindFailed,
};

// What a transfer was. The numbers are DAT 2.0's own, with OpenFabrics' extensions; 1.2 doesn't tell.
enum class DtoOperation : std::uint8_t {
    kSend = 0,
    kWrite = 1,
    kRead = 2,
    kReceive = 3,
    kBind = 5,
    kWriteImmediate = 8,
    kReceiveWriteImmediate = 9, // a receive that a peer's write with immediate data took
    kFetchAdd = 10,
    kCompareSwap = 11,
    kReceiveSendImmediate = 12, // a message with immediate data
};

// Objects are named by their handles: they may be gone when the event is read.
struct Event {
    EventKind kind = EventKind::kSoftware;
    void* object = nullptr;
    DtoStatus status = DtoStatus::kSuccess;
    bool is_quiet = false;                        // it neither wakes a waiter nor triggers the CNO
    DtoOperation operation = DtoOperation::kSend; // of a transfer
    std::uint32_t immediate = 0;                  // of the receives that have it; as it was on the wire
    std::uint64_t cookie = 0;                     // of a transfer; the qualifier, of a request
    std::uint64_t length = 0;                     // of a transfer, or of DATA
    void* source = nullptr;     // of a transfer: the shared receive queue that its buffer came from
    const void* data = nullptr; // the peer's private data
    DtoRing* ring = nullptr;    // of a receive: counts the receives that the program hasn't taken
};

} // namespace sluice::dapl
