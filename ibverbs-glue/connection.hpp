// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting queue pairs: a seam with one implementation over librdmacm (rdma_cm.cpp), and one over
// uroce's own connection manager (uroce_cm.cpp).
//
// A ConnectionService belongs to one opened device and has one queue of events. Connections and
// listeners are made by it and must go before it, or move to another. Calls return at once, but for
// resolve(); what becomes of them is an event. Different connections may be used by several threads at the
// same time; one connection by one thread at a time, besides the one thread that takes events.
//
//   passive side                               active side
//   listen()
//                                              connect(qp)
//   kRequest, with a new Connection
//   accept(qp), or reject()                    kEstablished, or kRejected
//   kEstablished
//   disconnect(), or kDisconnected             kDisconnected
//
// The service moves the queue pair: to RTR and RTS when the connection comes about, to ERR, which
// flushes what is posted, when it ends. The caller has brought it to INIT before, keeps it longer than
// the Connection, and brings it back by to_reset().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ibverbs-glue/address.hpp"
#include "ibverbs-glue/queue_pair.hpp"

namespace sluice::glue {

enum class ConnectionEventKind {
    kRequest,      // somebody wants to connect to a listener
    kAddressFound, // after start_resolving(): the peer's address leads through the device
    kPathFound,    // after start_resolving(): connect() only asks the peer
    kEstablished,  // both sides are ready
    kRejected,     // by the peer's program or by what stands before it
    kUnreachable,  // there is no way to the peer, or nobody answered in time
    kFailed,       // the peer agreed, but a side could not be made ready
    kDisconnected, // by either side
    kPeerDied,     // its process has ended without a word
    kTimedWait,    // after that, the network can hold no packet of the connection any more
    kDeviceGone,
};

class Connection;

struct ConnectionEvent {
    ConnectionEventKind kind;
    void* owner;                           // of the connection, or of the listener for kRequest
    int os_errno = 0;                      // why, where it failed; 0 for a rejection
    bool by_the_program = false;           // kRejected: by the peer's program
    std::unique_ptr<Connection> request{}; // for kRequest
    // What the peer's program sent along. How long it was nobody tells: it may be followed by zeros.
    std::vector<std::byte> private_data{};
};

struct ConnectionOptions {
    std::span<const std::byte> private_data{};
    std::uint8_t reads_in = 0;          // RDMA reads and atomics that the peer may have open here
    std::uint8_t reads_out = 0;         // that this side may have open there
    std::uint8_t retries = 7;           // of a packet that isn't acknowledged
    std::uint8_t not_ready_retries = 7; // while the peer has no receive posted; 7: without end
    bool has_shared_receive_queue = false;
    bool has_flow_control = false; // end to end, as InfiniBand has it
};

class ConnectionService;

class Connection {
  public:
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Comes with each event from now on; for a new request it is null.
    virtual void set_owner(void* owner) noexcept = 0;

    // Finds the way to PEER now instead of after connect(), which then only asks the peer. Blocks for up to
    // TIMEOUT_MS for the address and again for the path.
    virtual Result<void> resolve(const Address& peer, int timeout_ms) = 0;
    // The same without blocking. True: there is nothing to find, and no event tells so. False: kAddressFound
    // and kPathFound follow, or kUnreachable in place of either.
    virtual Result<bool> start_resolving(const Address& peer, int timeout_ms) = 0;
    // Its events, also those that wait, arrive at SERVICE from now on, which is one of the same device. No
    // thread takes events of its former service meanwhile.
    virtual Result<void> move_to(ConnectionService& service) = 0;

    virtual Result<void> connect(const Address& peer, const QueuePair& qp,
                                 const ConnectionOptions& options) = 0;
    virtual Result<void> accept(const QueuePair& qp, const ConnectionOptions& options) = 0;
    virtual Result<void> reject(std::span<const std::byte> private_data) = 0;
    // Not by the program, which wasn't asked. Over rdma_cm the peer can't tell the difference.
    virtual Result<void> refuse() = 0;
    virtual Result<void> disconnect() = 0;
    // An accepted connection's queue pair has received something (IBV_EVENT_COMM_EST): the peer is ready,
    // though its last message may be lost.
    virtual Result<void> notify_communication() = 0;

    // With ports; known from kRequest and kEstablished on.
    virtual Address local_address() const = 0;
    virtual Address peer_address() const = 0;
    // This side's alone; known as soon as there is one, 0 before. Any thread may ask at any time.
    virtual std::uint16_t local_port() const = 0;

  protected:
    Connection() = default;
};

class Listener {
  public:
    virtual ~Listener() = default;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // In the host's order; chosen by the service where 0 was asked for.
    virtual std::uint16_t port() const = 0;

  protected:
    Listener() = default;
};

// How much a program may send along.
struct PrivateDataLimits {
    std::size_t connect;
    std::size_t accept;
    std::size_t reject;
};

class ConnectionService {
  public:
    virtual ~ConnectionService() = default;
    ConnectionService(const ConnectionService&) = delete;
    ConnectionService& operator=(const ConnectionService&) = delete;

    virtual PrivateDataLimits limits() const noexcept = 0;

    // Readable when an event waits.
    virtual int fd() const noexcept = 0;
    // The next event, or nothing when none waits. An event that only concerns the service is
    // dealt with and not given out.
    virtual Result<std::optional<ConnectionEvent>> next_event() = 0;

    virtual Result<std::unique_ptr<Connection>> make_connection(void* owner) = 0;
    // At the device's own address. kExists when the port is taken.
    virtual Result<std::unique_ptr<Listener>> listen(std::uint16_t port, int backlog, void* owner) = 0;

  protected:
    ConnectionService() = default;
};

// For CONTEXT's device, whatever it is. LOCAL is an address of the device: connections leave from there,
// and listeners wait there. It may be unset for a caller that doesn't listen and leaves it to the system
// where connections leave from. CONTEXT outlives the service.
Result<std::unique_ptr<ConnectionService>> open_connections(const Context& context, const Address& local);

} // namespace sluice::glue
