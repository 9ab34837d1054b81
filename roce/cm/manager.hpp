// SPDX-License-Identifier: BSD-3-Clause
//
// The InfiniBand connection manager of one device, without any I/O: it speaks with the Linux
// kernel's ib_cm and rdma_cm and with its own kind. Whoever drives it gives it messages, the time
// and the program's wishes, and takes messages and events:
//
//     manager.receive(source, destination, mad, now);         // for each that arrived
//     manager.advance(now);                                   // if now >= next_deadline()
//     while (manager.next_event(event)) { tell(event); }
//     while (manager.transmit(out)) { send(out); }            // after any call
//
// A connection ends in exactly one way, told by exactly one event: kRejected, kUnreachable, or, once
// it was established or the program asked for it, kDisconnected. A connection that the program
// destroys ends without an event. Copies of what was answered before are answered again and change
// nothing. Everything a peer says is checked against its address and both ids.
//
// Memory is bounded by ManagerConfig: requests beyond that are refused or dropped, and counted. If
// the caller doesn't take events, messages are dropped and timers wait. Not thread safe.
#pragma once

#include <memory>
#include <vector>

#include "core/result.hpp"
#include "roce/cm/messages.hpp"
#include "roce/cm/peer_index.hpp"
#include "roce/engine/deadlines.hpp"
#include "roce/engine/ring.hpp"

namespace sluice::roce::cm {

class ConnectionManager {
  public:
    explicit ConnectionManager(const ManagerConfig& config);

    const ManagerCounters& counters() const noexcept { return counters_; }
    // Connections in any state, those included that nobody holds any more.
    std::uint32_t live() const noexcept { return live_; }

    Result<ListenerId> listen(const ListenParams& params);
    // Requests that were told of remain. Nothing happens for a listener that is gone.
    void unlisten(ListenerId id) noexcept;
    // A port of rdma_cm's PORT_SPACE at which nobody listens.
    Result<std::uint16_t> free_port(std::uint16_t port_space) noexcept;

    Result<ConnectionId> connect(const ConnectParams& params, engine::Nanoseconds now);
    Result<ConnectionId> resolve(const ResolveParams& params, engine::Nanoseconds now);
    // What a queue pair needs; from kConnectRequest or kConnectResponse on.
    Result<QpSettings> qp_settings(ConnectionId id) const;
    Result<void> set_cookie(ConnectionId id, std::uint64_t cookie);
    // Whether accept() would succeed: for who makes the queue pair ready before, as it must be.
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
    // Data arrived at this queue pair: that is as good as RTU (12.9.7.2).
    void communication_established(std::uint32_t qpn) noexcept;
    Result<void> communication_established(ConnectionId id);

    void receive(const engine::Address& source, const engine::Address& destination,
                 std::span<const std::uint8_t> mad, engine::Nanoseconds now) noexcept;
    void advance(engine::Nanoseconds now) noexcept;
    engine::Nanoseconds next_deadline() const noexcept { return deadlines_.next(); }
    bool next_event(Event& out) noexcept;
    bool transmit(OutMad& out) noexcept;

  private:
    static constexpr std::uint32_t kNobody = Connection::kNobody;
    struct Listener {
        ListenParams params;
        std::uint32_t id = 0; // 0: free
        std::uint32_t pending = 0;
    };
    // Where a message came from, to answer there.
    struct In {
        const engine::Address& source;
        const engine::Address& destination;
        std::uint64_t tid;
        engine::Nanoseconds now;
    };
    struct Ids {
        std::uint32_t ours;
        std::uint32_t theirs;
    };

    // manager.cpp: slots, timers, what the program asks for
    std::uint64_t draw_64() noexcept;
    std::uint32_t slot_of(const Connection& c) const noexcept { return c.comm_id & slot_mask_; }
    std::uint32_t new_comm_id(std::uint32_t slot) noexcept;
    Connection* find(std::uint32_t comm_id) const noexcept;
    Result<Connection*> get(ConnectionId id) const;
    Connection* make(const engine::Address& local, const engine::Address& peer) noexcept;
    bool make_room() noexcept;
    void release(Connection& c) noexcept;
    Result<Connection*> make_active(const engine::Address& local, const engine::Address& peer,
                                    const Timing& timing, std::uint64_t service_id, std::size_t data_bytes,
                                    bool datagram);
    Result<void> check_qpn(std::uint32_t qpn) const;
    void claim_qpn(Connection& c, std::uint32_t qpn) noexcept;
    Connection* holder_of(std::uint32_t qpn) const noexcept;
    void establish(Connection& c) noexcept;
    void begin(Connection& c, const Mad& first, engine::Nanoseconds now) noexcept;
    void say(Connection& c, const Mad& mad) noexcept;
    void push(const engine::Address& source, const engine::Address& destination, const Mad& mad) noexcept;
    void expect_answer(Connection& c, engine::Nanoseconds within, engine::Nanoseconds now) noexcept;
    void expire(Connection& c, engine::Nanoseconds now) noexcept;
    void give_up(Connection& c, engine::Nanoseconds now) noexcept;
    void enter(Connection& c, State state) noexcept;
    void close(Connection& c) noexcept;
    void time_wait(Connection& c, engine::Nanoseconds now) noexcept;
    void send_dreq(Connection& c, engine::Nanoseconds now) noexcept;
    void send_rej(Connection& c, std::uint16_t why, std::span<const std::uint8_t> data,
                  engine::Nanoseconds now) noexcept;
    void leave_backlog(Connection& c) noexcept;
    void append_orphan(Connection& c) noexcept;
    void remove_orphan(Connection& c) noexcept;
    Event& add_event(const Connection& c, EventType type) noexcept;
    void tell(const Connection& c, EventType type, std::uint16_t why = 0) noexcept;

    // receive.cpp: what peers say
    void on(const wire::CmReq& req, const In& in) noexcept;
    void on(const wire::CmMra& mra, const In& in) noexcept;
    void on(const wire::CmRej& rej, const In& in) noexcept;
    void on(const wire::CmRep& rep, const In& in) noexcept;
    void on(const wire::CmRtu& rtu, const In& in) noexcept;
    void on(const wire::CmDreq& dreq, const In& in) noexcept;
    void on(const wire::CmDrep& drep, const In& in) noexcept;
    void on(const wire::CmSidrReq& req, const In& in) noexcept;
    void on(const wire::CmSidrRep& rep, const In& in) noexcept;
    void on(const wire::CmLap& lap, const In& in) noexcept;
    void on(const wire::CmApr& apr, const In& in) noexcept;
    Connection* find_exact(std::uint32_t ours, std::uint32_t theirs, const In& in) const noexcept;
    Connection* find_peer(const engine::Address& peer, std::uint32_t remote_comm_id,
                          bool datagram) const noexcept;
    Connection* find_request(std::uint32_t remote_comm_id, bool datagram, const In& in) noexcept;
    Connection* find_peer_qpn(const engine::Address& peer, std::uint32_t qpn) const noexcept;
    Connection* rejected_by(const wire::CmRej& rej, const In& in) const noexcept;
    Listener* listener_for(std::uint64_t service_id, const engine::Address& local) noexcept;
    Connection* make_passive(Listener& listener, std::uint32_t remote_comm_id, const In& in) noexcept;
    std::uint16_t problem_of(const wire::CmReq& req, const wire::CmPath& path, const In& in) const noexcept;
    void take_request(Connection& c, const wire::CmReq& req, const wire::CmPath& path) noexcept;
    void repeat_request(Connection& c, const In& in) noexcept;
    bool try_smaller_mtu(Connection& c, const wire::CmRej& rej, const In& in) noexcept;
    void take_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept;
    void repeat_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept;
    void end_stale(Connection& c, engine::Nanoseconds now) noexcept;
    void refuse(const In& in, const Ids& ids, Refused message, std::uint16_t why,
                std::span<const std::uint8_t> info = {}) noexcept;
    void refuse_sidr(const In& in, const wire::CmSidrReq& req) noexcept;

    ManagerConfig config_;
    ManagerCounters counters_;
    std::uint64_t random_;
    std::vector<std::unique_ptr<Connection>> slots_; // by the low bits of the comm id
    std::uint32_t slot_mask_;
    std::vector<std::uint32_t> lives_; // that each slot has had
    std::vector<std::uint32_t> free_slots_;
    std::uint32_t live_ = 0;
    std::uint32_t oldest_orphan_ = kNobody;
    std::uint32_t newest_orphan_ = kNobody;
    PeerIndex by_remote_id_;  // connections whose peer told its id
    PeerIndex by_remote_qpn_; // connections that hold a queue pair of the peer
    PeerIndex by_qpn_;        // ours, until the end of time-wait
    engine::Deadlines deadlines_;
    std::vector<Listener> listeners_;
    std::uint32_t next_listener_ = 1;
    engine::Ring<Event> events_;
    engine::Ring<OutMad> outbox_;
};

} // namespace sluice::roce::cm
