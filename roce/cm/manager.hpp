// SPDX-License-Identifier: BSD-3-Clause
//
// The InfiniBand connection manager of one device, without any I/O: it speaks with the Linux
// kernel's ib_cm and rdma_cm and with its own kind. Its driver gives it messages, the time and the
// program's requests, and takes messages and events:
//
//     manager.receive(source, destination, mad, now);         // for each that arrived
//     manager.advance(now);                                   // if now >= next_deadline()
//     while (manager.next_event(event)) { report(event); }
//     while (manager.transmit(out)) { send(out); }            // after any call
//
// A connection ends in exactly one way, reported by exactly one event: kRejected, kUnreachable, or, once
// it was established or the program asked for it, kDisconnected. A connection that the program
// destroys ends without an event. Copies of what was answered before are answered again and change
// nothing. Everything a peer says is checked against its address and both ids.
//
// Memory is bounded by ManagerConfig: requests beyond that are refused or dropped, and counted. If
// the caller doesn't take events, messages are dropped and timers wait. Not thread safe.
#pragma once

#include "roce/cm/receiver.hpp"

namespace sluice::roce::cm {

class ConnectionManager {
  public:
    explicit ConnectionManager(const ManagerConfig& config);
    ConnectionManager(const ConnectionManager&) = delete;
    ConnectionManager& operator=(const ConnectionManager&) = delete;

    const ManagerCounters& counters() const noexcept { return counters_; }
    // Connections in any state, those included that the program has let go of.
    std::uint32_t live() const noexcept { return connections_.live(); }

    Result<ListenerId> listen(const ListenParams& params) { return listeners_.add(params); }
    // Requests that were reported remain. Nothing happens for a listener that is gone.
    void unlisten(ListenerId id, engine::Nanoseconds now) noexcept { listeners_.remove(id, now); }
    // A port of rdma_cm's PORT_SPACE at which nobody listens.
    Result<std::uint16_t> free_port(std::uint16_t port_space) noexcept {
        return listeners_.free_port(port_space, random_);
    }

    Result<ConnectionId> connect(const ConnectParams& params, engine::Nanoseconds now);
    Result<ConnectionId> resolve(const ResolveParams& params, engine::Nanoseconds now);
    // What a queue pair needs; from kConnectRequest or kConnectResponse on.
    Result<QpSettings> qp_settings(ConnectionId id) const;
    Result<void> set_cookie(ConnectionId id, std::uint64_t cookie);
    // Whether accept() would succeed: the queue pair must be made ready before.
    Result<void> check_accept(ConnectionId id, const AcceptParams& params) const;
    Result<void> accept(ConnectionId id, const AcceptParams& params, engine::Nanoseconds now);
    // After kConnectResponse.
    Result<void> ready(ConnectionId id);
    // Until the connection is established. No event follows.
    Result<void> reject(ConnectionId id, std::uint16_t why, std::span<const std::uint8_t> data,
                        engine::Nanoseconds now);
    // kDisconnected follows, whatever the state was, unless the connection is over.
    Result<void> disconnect(ConnectionId id, engine::Nanoseconds now);
    // The peer is told if it may still believe in the connection. No event follows.
    void destroy(ConnectionId id, engine::Nanoseconds now) noexcept;
    // No program has seen the request, and its listener closes: it is refused as if nothing had listened.
    void drop_request(ConnectionId id, engine::Nanoseconds now) noexcept;
    // Data arrived at this queue pair: that is as good as RTU (12.9.7.2).
    void communication_established(std::uint32_t qpn) noexcept;
    Result<void> communication_established(ConnectionId id);

    // A peer on the loopback network that hasn't answered for two seconds, in which it was asked every 50 ms;
    // from then on it is asked as others are. False: there is none. Whoever can look whether anybody is there
    // may say that nobody is, and the connection is refused as by a connection manager there.
    struct Silent {
        ConnectionId id = ConnectionId::kNone;
        engine::Address peer;
    };
    bool next_silent(Silent& out) noexcept;
    void nobody_there(ConnectionId id) noexcept;

    // A peer that doesn't answer the question whether it still has the connection, or the request to end it.
    // The driver looks and says what there is to see.
    struct Doubtful {
        ConnectionId id = ConnectionId::kNone;
        engine::Ends ends{};
    };
    bool next_doubtful(Doubtful& out) noexcept;
    void peer_seen(ConnectionId id, Sight sight, engine::Nanoseconds now) noexcept;

    // The process that had share ITS of the numbers of ADDRESS has ended: its peers hear of it as if it had
    // said so. ENDS, COUNT of them, are those of the connections that are over by that.
    struct Ended {
        std::array<engine::Ends, 64> ends{};
        std::size_t count = 0;
        bool are_more = false; // to be asked for when the events are taken
    };
    Ended process_ended(const engine::Address& address, const engine::Share& its,
                        engine::Nanoseconds now) noexcept;
    // Whether there are connections with it.
    bool has_connections(const engine::Address& address, const engine::Share& its) noexcept;

    // The same, and another process has that share now, with which there may be connections as well: the peer
    // of each is asked at once whether it has it.
    void process_replaced(const engine::Address& address, const engine::Share& its,
                          engine::Nanoseconds now) noexcept;
    // A process of this host says that it hasn't the connection of ENDS. Counts while the peer is in doubt by
    // what was said above; and a few times while it doesn't confirm the connection's end.
    void peer_denies(const engine::Ends& ends, engine::Nanoseconds now) noexcept;

    void receive(const engine::Address& source, const engine::Address& destination,
                 std::span<const std::uint8_t> mad, engine::Nanoseconds now) noexcept {
        receiver_.receive(source, destination, mad, now);
    }
    void advance(engine::Nanoseconds now) noexcept;
    engine::Nanoseconds next_deadline() const noexcept { return connections_.next_deadline(); }
    bool next_event(Event& out) noexcept { return lifecycle_.next_event(out); }
    bool transmit(OutMad& out) noexcept { return lifecycle_.transmit(out); }

  private:
    Result<Connection*> make_active(const engine::Address& local, const engine::Address& peer,
                                    const Timing& timing, std::uint64_t service_id, std::size_t data_bytes,
                                    bool datagram);
    Result<void> check_qpn(std::uint32_t qpn) const;
    void claim_qpn(Connection& c, std::uint32_t qpn) noexcept;

    // Those behind refer to those before them.
    const ManagerConfig config_;
    ManagerCounters own_counters_;
    ManagerCounters& counters_;
    RandomNumbers random_;
    Listeners listeners_;
    Connections connections_;
    Lifecycle lifecycle_;
    Receiver receiver_;
};

} // namespace sluice::roce::cm
