// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/manager.hpp"

#include <algorithm>

namespace sluice::roce::cm {

namespace {

constexpr std::uint8_t kMostRetries = 15, kMostQpRetries = 7; // what their fields hold

Error wrong_state(const char* text) noexcept {
    return Error(ErrorKind::kInvalidState, text);
}

bool is_with(const Connection& c, const engine::Address& address, const engine::Share& its) noexcept {
    return c.peer == address && c.remote_comm_id != 0 && its.owns(c.remote_comm_id) && !c.is_over();
}

} // namespace

ConnectionManager::ConnectionManager(const ManagerConfig& config)
    : config_(config), counters_(config.counters != nullptr ? *config.counters : own_counters_),
      random_(config.secret), listeners_(config.max_listeners, config.claims),
      connections_(config_, counters_), lifecycle_(config_, counters_, random_, listeners_, connections_),
      receiver_(config_, counters_, random_, listeners_, connections_, lifecycle_) {}

Result<Connection*> ConnectionManager::make_active(const engine::Address& local, const engine::Address& peer,
                                                   const Timing& timing, std::uint64_t service_id,
                                                   std::size_t data_bytes, bool datagram) {
    if (data_bytes > request_capacity(service_id, datagram)) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "%zu bytes of private data, but a request holds %zu at most", data_bytes,
                             request_capacity(service_id, datagram));
    }
    if (timing.response_timeout > kMaxCode || timing.packet_lifetime >= kMaxCode ||
        timing.max_retries > kMostRetries) {
        return Error(ErrorKind::kInvalidArgument,
                     "a connection's timeouts are codes up to 31 and 30, and its retries at most 15");
    }
    Connection* c = connections_.make(local, peer);
    if (c == nullptr) {
        return Error(ErrorKind::kInsufficientResources,
                     "no room for another connection; destroy one, or wait for the end of a time-wait");
    }
    c->active = true;
    c->datagram = datagram;
    c->service_id = service_id;
    c->timing = timing;
    c->tid = random_.transaction_id();
    c->flow_label = random_.flow_label();
    return c;
}

Result<ConnectionId> ConnectionManager::connect(const ConnectParams& params, engine::Nanoseconds now) {
    if (params.path_mtu < 1 || params.path_mtu > config_.max_path_mtu) {
        return Error(ErrorKind::kInvalidArgument, "the MTU is a code from 1 to the port's");
    }
    if (Result<void> usable = check_qpn(params.qpn); !usable) {
        return std::move(usable).error();
    }
    Result<Connection*> made = make_active(params.local, params.remote, params.timing, params.service_id,
                                           params.private_data.size(), false);
    if (!made) {
        return std::move(made).error();
    }
    Connection& c = **made;
    claim_qpn(c, params.qpn);
    c.local_port = params.local_port;
    c.peer_port = static_cast<std::uint16_t>(params.service_id);
    c.cookie = params.cookie;
    c.recv_psn = random_.sequence_number();
    c.responder_resources = std::min(params.responder_resources, config_.max_rd_atomic);
    c.initiator_depth = std::min(params.initiator_depth, config_.max_rd_atomic);
    c.path_mtu = params.path_mtu;
    c.retry_count = std::min(params.retry_count, kMostQpRetries);
    c.rnr_retry_count = c.rnr_retry_for_peer = std::min(params.rnr_retry_count, kMostQpRetries);
    c.flow_control = params.flow_control;
    c.srq = params.srq;
    lifecycle_.start_in(c, State::kReqSent);
    lifecycle_.begin(c, make_req(c, config_, params.private_data), now);
    return static_cast<ConnectionId>(c.comm_id);
}

Result<ConnectionId> ConnectionManager::resolve(const ResolveParams& params, engine::Nanoseconds now) {
    Result<Connection*> made = make_active(params.local, params.remote, params.timing, params.service_id,
                                           params.private_data.size(), true);
    if (!made) {
        return std::move(made).error();
    }
    Connection& c = **made;
    c.local_port = params.local_port;
    c.peer_port = static_cast<std::uint16_t>(params.service_id);
    c.cookie = params.cookie;
    lifecycle_.start_in(c, State::kSidrSent);
    lifecycle_.begin(c, make_sidr_req(c, params.private_data), now);
    return static_cast<ConnectionId>(c.comm_id);
}

Result<void> ConnectionManager::check_qpn(std::uint32_t qpn) const {
    if (qpn <= wire::kGsiQpn || qpn > wire::kQpnMask) {
        return Error(ErrorKind::kInvalidArgument, "a queue pair has a number from 2 to 2^24 - 1");
    }
    if (connections_.find_by_qpn(qpn) != nullptr) {
        return Error(ErrorKind::kBusy, "this queue pair has a connection, or its last one is in time-wait; "
                                       "wait for its end, or take a new queue pair");
    }
    return {};
}

void ConnectionManager::claim_qpn(Connection& c, std::uint32_t qpn) noexcept {
    c.qpn = qpn;
    connections_.index_qpn(c);
}

Result<QpSettings> ConnectionManager::qp_settings(ConnectionId id) const {
    const Result<Connection*> found = connections_.get(id);
    if (!found) {
        return found.error().clone();
    }
    const Connection& c = **found;
    if (c.datagram || c.state == State::kReqSent || c.is_over()) {
        return wrong_state(
            "a queue pair's attributes are known only from the peer's message until the connection ends");
    }
    return QpSettings{.local = c.local,
                      .remote = c.peer,
                      .dest_qpn = c.peer_qpn,
                      .path_mtu = c.path_mtu,
                      .recv_psn = c.recv_psn,
                      .send_psn = c.send_psn,
                      .max_dest_rd_atomic = c.responder_resources,
                      .max_rd_atomic = c.initiator_depth,
                      .timeout = c.ack_timeout,
                      .retry_count = c.retry_count,
                      .rnr_retry = c.rnr_retry_count,
                      .flow_label = c.flow_label,
                      .traffic_class = c.traffic_class,
                      .hop_limit = c.hop_limit};
}

Result<void> ConnectionManager::set_cookie(ConnectionId id, std::uint64_t cookie) {
    Result<Connection*> found = connections_.get(id);
    if (!found) {
        return std::move(found).error();
    }
    (*found)->cookie = cookie;
    return {};
}

Result<void> ConnectionManager::check_accept(ConnectionId id, const AcceptParams& params) const {
    const Result<Connection*> found = connections_.get(id);
    if (!found) {
        return found.error().clone();
    }
    if ((*found)->state != State::kReqReceived) {
        return wrong_state("only a request that wasn't answered yet can be accepted");
    }
    const bool datagram = (*found)->datagram;
    const std::size_t room = datagram ? kSidrReplyData : kReplyData;
    if (params.private_data.size() > room) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "%zu bytes of private data, but an answer holds %zu", params.private_data.size(),
                             room);
    }
    if (params.qpn > wire::kQpnMask) {
        return Error(ErrorKind::kInvalidArgument, "a queue pair's number is at most 2^24 - 1");
    }
    return datagram ? Result<void>() : check_qpn(params.qpn);
}

Result<void> ConnectionManager::accept(ConnectionId id, const AcceptParams& params, engine::Nanoseconds now) {
    if (Result<void> possible = check_accept(id, params); !possible) {
        return possible;
    }
    Connection& c = *connections_.find(static_cast<std::uint32_t>(id));
    if (c.datagram) {
        c.qpn = params.qpn; // serves many peers at once, so none claims it
        lifecycle_.say(c, make_sidr_rep(c, kSidrValid, params.qkey, params.private_data));
        lifecycle_.time_wait(c, now);
        return {};
    }
    claim_qpn(c, params.qpn);
    c.responder_resources = std::min(c.responder_resources, params.responder_resources);
    c.initiator_depth = std::min(c.initiator_depth, params.initiator_depth);
    c.flow_control = params.flow_control;
    c.srq = params.srq;
    c.rnr_retry_for_peer = std::min(params.rnr_retry_count, kMostQpRetries);
    lifecycle_.enter(c, State::kRepSent);
    lifecycle_.begin(c, make_rep(c, config_, params.private_data), now);
    return {};
}

Result<void> ConnectionManager::ready(ConnectionId id) {
    Result<Connection*> found = connections_.get(id);
    if (!found) {
        return std::move(found).error();
    }
    Connection& c = **found;
    if (c.state != State::kRepReceived) {
        return wrong_state("there is no answer of the peer to confirm");
    }
    lifecycle_.confirm(c);
    return {};
}

Result<void> ConnectionManager::reject(ConnectionId id, std::uint16_t why, std::span<const std::uint8_t> data,
                                       engine::Nanoseconds now) {
    Result<Connection*> found = connections_.get(id);
    if (!found) {
        return std::move(found).error();
    }
    Connection& c = **found;
    const bool unanswered = c.state == State::kReqReceived;
    if (!unanswered && c.state != State::kRepSent && c.state != State::kRepReceived) {
        return wrong_state("only what isn't established yet can be rejected");
    }
    if (data.size() > (c.datagram ? kSidrReplyData : kRejectData)) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "%zu bytes of private data, but a rejection holds %zu", data.size(),
                             c.datagram ? kSidrReplyData : kRejectData);
    }
    lifecycle_.reject(c, why, data, now);
    return {};
}

Result<void> ConnectionManager::disconnect(ConnectionId id, engine::Nanoseconds now) {
    Result<Connection*> found = connections_.get(id);
    if (!found) {
        return std::move(found).error();
    }
    Connection& c = **found;
    if (c.is_over()) {
        return {}; // programs answer the peer's disconnect without asking whether that is needed
    }
    if (!lifecycle_.has_room(1)) {
        return Error(ErrorKind::kBusy, "take the events first");
    }
    if (c.state == State::kEstablished) {
        lifecycle_.disconnect(c, now);
    } else if (c.state != State::kDreqSent) {
        lifecycle_.report(c, EventType::kDisconnected);
        c.state == State::kSidrSent
            ? lifecycle_.close(c)
            : lifecycle_.reject(c, c.state == State::kReqSent ? reason::kTimeout : reason::kConsumer, {},
                                now);
    }
    return {};
}

ConnectionManager::Ended ConnectionManager::process_ended(const engine::Address& address,
                                                          const engine::Share& its,
                                                          engine::Nanoseconds now) noexcept {
    Ended all;
    connections_.for_each([&](Connection& c) {
        const bool is_its = is_with(c, address, its);
        all.are_more = is_its && (all.count == all.ends.size() || !lifecycle_.has_room(1));
        if (is_its && !all.are_more) {
            all.ends[all.count++] = c.ends();
            lifecycle_.report(c, EventType::kDisconnected, reason::kProcessEnded);
            lifecycle_.time_wait(c, now);
        }
        return !all.are_more;
    });
    return all;
}

bool ConnectionManager::has_connections(const engine::Address& address, const engine::Share& its) noexcept {
    bool has_some = false;
    connections_.for_each([&](const Connection& c) {
        has_some = is_with(c, address, its);
        return !has_some;
    });
    return has_some;
}

void ConnectionManager::process_replaced(const engine::Address& address, const engine::Share& its,
                                         engine::Nanoseconds now) noexcept {
    connections_.for_each([&](Connection& c) {
        if (is_with(c, address, its)) {
            lifecycle_.doubt(c, now);
        }
        return true;
    });
}

void ConnectionManager::peer_denies(const engine::Ends& ends, engine::Nanoseconds now) noexcept {
    Connection* c = connections_.find_by_qpn(ends.qpn);
    if (c != nullptr && c->peer == ends.remote && c->peer_qpn == ends.peer_qpn && lifecycle_.has_room(1)) {
        lifecycle_.peer_denies(*c, now);
    }
}

void ConnectionManager::destroy(ConnectionId id, engine::Nanoseconds now) noexcept {
    Connection* found = connections_.find(static_cast<std::uint32_t>(id));
    if (found == nullptr || found->orphan) {
        return;
    }
    Connection& c = *found;
    c.orphan = true;
    switch (c.state) {
    case State::kReqSent:
        lifecycle_.reject(c, reason::kTimeout, {}, now);
        break;
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
        lifecycle_.reject(c, reason::kConsumer, {}, now);
        break;
    case State::kEstablished:
        lifecycle_.disconnect(c, now);
        break;
    case State::kDreqSent:
        break;
    case State::kTimeWait:
        connections_.append_orphan(c);
        break;
    case State::kSidrSent:
    case State::kClosed:
        connections_.release(c);
        break;
    }
}

void ConnectionManager::drop_request(ConnectionId id, engine::Nanoseconds now) noexcept {
    Connection* c = connections_.find(static_cast<std::uint32_t>(id));
    if (c == nullptr || c->orphan || c->state != State::kReqReceived) {
        return;
    }
    c->orphan = true;
    if (engine::is_loopback(c->peer)) {
        lifecycle_.close(*c); // it asks again soon, and somebody may listen again by then
    } else {
        lifecycle_.reject(*c, reason::kInvalidServiceId, {}, now);
    }
}

void ConnectionManager::communication_established(std::uint32_t qpn) noexcept {
    Connection* c = connections_.find_by_qpn(qpn);
    if (c != nullptr && c->state == State::kRepSent && lifecycle_.has_room(1)) {
        lifecycle_.peer_is_ready(*c);
    } // otherwise RTU or the next repetition will do
}

Result<void> ConnectionManager::communication_established(ConnectionId id) {
    const Result<Connection*> found = connections_.get(id);
    if (!found) {
        return found.error().clone();
    }
    communication_established((*found)->qpn);
    return {};
}

bool ConnectionManager::next_silent(Silent& out) noexcept {
    while (lifecycle_.next_silent(out.id)) {
        const Connection* c = connections_.find(static_cast<std::uint32_t>(out.id));
        if (c != nullptr && c->is_unanswered()) {
            out.peer = c->peer;
            return true;
        }
    }
    return false;
}

void ConnectionManager::nobody_there(ConnectionId id) noexcept {
    Connection* c = connections_.find(static_cast<std::uint32_t>(id));
    if (c != nullptr && c->is_unanswered() && lifecycle_.has_room(1)) {
        lifecycle_.nobody_there(*c);
    }
}

bool ConnectionManager::next_doubtful(Doubtful& out) noexcept {
    while (lifecycle_.next_doubtful(out.id)) {
        const Connection* c = connections_.find(static_cast<std::uint32_t>(out.id));
        if (c != nullptr && (c->state == State::kEstablished || c->state == State::kDreqSent)) {
            out.ends = c->ends();
            return true;
        }
    }
    return false;
}

void ConnectionManager::peer_seen(ConnectionId id, Sight sight, engine::Nanoseconds now) noexcept {
    Connection* c = connections_.find(static_cast<std::uint32_t>(id));
    if (c != nullptr && lifecycle_.has_room(1)) {
        lifecycle_.peer_seen(*c, sight, now);
    }
}

void ConnectionManager::advance(engine::Nanoseconds now) noexcept {
    while (connections_.next_deadline() <= now && lifecycle_.has_room(1)) {
        lifecycle_.expire(connections_.first_due(), now);
    }
}

} // namespace sluice::roce::cm
