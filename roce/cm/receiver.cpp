// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/receiver.hpp"

#include <algorithm>

namespace sluice::roce::cm {

namespace {

// How long a peer may make us wait, whatever its messages say.
constexpr std::uint8_t kMostResponseTimeout = 22, kMostLifetime = 20, kMostServiceTimeout = 24;
constexpr std::uint8_t kMostAckTimeout = 22;
constexpr std::uint32_t kMostEventsPerMad = 2;

constexpr std::uint8_t kAprInvalidCommId = 1, kAprNotSupported = 2;

constexpr bool is_default_partition(std::uint16_t pkey) noexcept {
    return (pkey & 0x7fff) == 0x7fff;
}

template<std::size_t kSize>
void put_data(Event& event, const std::array<std::uint8_t, kSize>& field, std::size_t from,
              std::size_t to) noexcept {
    static_assert(kSize <= 255);
    event.private_bytes = static_cast<std::uint8_t>(std::min(to - from, kMaxPrivateData));
    std::copy_n(field.begin() + static_cast<std::ptrdiff_t>(from), event.private_bytes,
                event.private_data.begin());
}

} // namespace

void Receiver::receive(const engine::Address& source, const engine::Address& destination,
                       std::span<const std::uint8_t> mad, engine::Nanoseconds now) noexcept {
    ++counters_.mads_in;
    if (mad.size() != wire::kMadBytes) {
        ++counters_.dropped_malformed;
        return;
    }
    const auto header = wire::decode<wire::MadHeader>(mad.first<wire::MadHeader::kBytes>());
    constexpr wire::MadHeader kOurs{};
    if (header.base_version != kOurs.base_version || header.management_class != kOurs.management_class ||
        header.class_version != kOurs.class_version || header.method != kOurs.method || header.status != 0) {
        ++counters_.dropped_malformed;
        return;
    }
    if (!lifecycle_.has_room(kMostEventsPerMad)) {
        ++counters_.dropped_busy;
        return;
    }
    lifecycle_.tick(now);
    const In in = {source, destination, header.transaction_id, now};
    const bool known =
        wire::visit_cm(header.attribute_id, mad.subspan<wire::MadHeader::kBytes, wire::kCmBytes>(),
                       [&](const auto& message) { on(message, in); });
    counters_.dropped_malformed += known ? 0 : 1;
}

Connection* Receiver::find_exact(std::uint32_t ours, std::uint32_t theirs, const In& in) const noexcept {
    Connection* c = connections_.find(ours);
    return c != nullptr && !c->datagram && theirs != 0 && c->remote_comm_id == theirs && c->peer == in.source
               ? c
               : nullptr;
}

// The connection that a peer has asked for under this id. It may give the id anew while we remember an old
// connection by it: the transaction is another one then, and the old connection, if it is over, is in the
// way.
Connection* Receiver::find_request(std::uint32_t remote_comm_id, bool datagram, const In& in) noexcept {
    Connection* known = connections_.find_passive(in.source, remote_comm_id, datagram);
    if (known != nullptr && known->tid != in.tid && known->is_over()) {
        connections_.forget_remote_id(*known);
        return nullptr;
    }
    return known;
}

// A refusal of what there is no connection for. Nothing is kept.
void Receiver::refuse(const In& in, const Ids& ids, Refused message, std::uint16_t why,
                      std::span<const std::uint8_t> info) noexcept {
    wire::CmRej rej;
    rej.local_comm_id = ids.ours;
    rej.remote_comm_id = ids.theirs;
    rej.message = static_cast<std::uint8_t>(message);
    rej.reason = why;
    rej.info_bytes = static_cast<std::uint8_t>(info.size());
    std::ranges::copy(info, rej.info.begin());
    ++counters_.rejects_out;
    lifecycle_.push(in.destination, in.source, to_mad(in.tid, rej));
}

// Some servers close their listener when they have accepted, and listen again for the next connection of the
// same client, which may be quicker. A peer on loopback asks again soon, and is not refused for a moment.
// And a program that has just started has the device before it listens: a request is left unanswered for a
// moment, and for two seconds while no process of the address has been there for longer than that.
bool Receiver::may_listen_soon(std::uint64_t service_id, std::uint32_t remote_comm_id,
                               const In& in) noexcept {
    if (!engine::is_loopback(in.source)) {
        return false;
    }
    const bool is_new = asks_since_just_now(remote_comm_id, in);
    return is_new || listeners_.was_removed_just_now(service_id, in.now);
}

bool Receiver::asks_since_just_now(std::uint32_t remote_comm_id, const In& in) noexcept {
    constexpr engine::Nanoseconds kTimeToListen = 100'000'000;
    for (const Unheard& known : unheard_) {
        if (known.tid == in.tid && known.remote_comm_id == remote_comm_id && known.source == in.source) {
            const bool may_begin = config_.claims != nullptr && config_.claims->may_all_claim_soon();
            return in.now - known.since < (may_begin ? kTimeToBegin : kTimeToListen);
        }
    }
    unheard_[unheard_count_++ % unheard_.size()] = {in.source, in.tid, remote_comm_id, in.now};
    return true;
}

// 0 when nothing is wrong with a request as such.
std::uint16_t Receiver::problem_of(const wire::CmReq& req, const wire::CmPath& path,
                                   const In& in) const noexcept {
    if (req.transport_type != 0) {
        return reason::kInvalidTransport;
    }
    if (path.local_gid != in.source.gid || path.remote_gid != in.destination.gid) {
        return reason::kInvalidGid; // data would go to another host than the one that asks
    }
    if (req.path_mtu < 1 || req.path_mtu > config_.max_path_mtu) {
        return reason::kInvalidMtu;
    }
    if (req.local_comm_id == 0 || req.local_qpn <= wire::kGsiQpn || !is_default_partition(req.pkey)) {
        return reason::kUnsupported;
    }
    if (carries_ip_header(req.service_id)) {
        const auto header =
            wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
        return ip_header_fits(header, in.source, in.destination) ? 0 : reason::kUnsupported;
    }
    return 0;
}

Connection* Receiver::make_passive(Listener& listener, std::uint32_t remote_comm_id, const In& in) noexcept {
    Connection* c = connections_.make(in.destination, in.source);
    if (c == nullptr) {
        return nullptr;
    }
    lifecycle_.start_in(*c, State::kReqReceived);
    c->remote_comm_id = remote_comm_id;
    c->service_id = listener.params.service_id;
    c->local_port = static_cast<std::uint16_t>(listener.params.service_id);
    c->tid = in.tid;
    listeners_.enter(listener, *c);
    connections_.index_remote_id(*c);
    return c;
}

void Receiver::on(const wire::CmReq& req, const In& in) noexcept {
    if (Connection* known = find_request(req.local_comm_id, false, in); known != nullptr) {
        if (known->tid == in.tid) {
            repeat_request(*known, in);
        } else {
            doubt(*known, in.now);
            refuse(in, {0, req.local_comm_id}, Refused::kReq, reason::kStaleConnection);
        }
        return;
    }
    const auto path =
        wire::decode<wire::CmPath>(std::span<const std::uint8_t, wire::CmPath::kBytes>(req.primary_path));
    if (const std::uint16_t problem = problem_of(req, path, in); problem != 0) {
        const auto info = std::span(&config_.max_path_mtu, problem == reason::kInvalidMtu ? 1 : 0);
        refuse(in, {0, req.local_comm_id}, Refused::kReq, problem, info);
        return;
    }
    if (Connection* holder = connections_.find_by_peer_qpn(in.source, req.local_qpn); holder != nullptr) {
        doubt(*holder, in.now);
        refuse(in, {0, req.local_comm_id}, Refused::kReq, reason::kStaleConnection);
        return;
    }
    Listener* listener = listeners_.find(req.service_id, in.destination);
    if (listener == nullptr && may_listen_soon(req.service_id, req.local_comm_id, in)) {
        ++counters_.dropped_backlog;
        return;
    }
    if (listener == nullptr) {
        refuse(in, {0, req.local_comm_id}, Refused::kReq, reason::kInvalidServiceId);
        return;
    }
    if (!listener->has_room()) {
        ++counters_.dropped_backlog; // it will ask again, and find room perhaps
        return;
    }
    Connection* c = make_passive(*listener, req.local_comm_id, in);
    if (c == nullptr) {
        refuse(in, {0, req.local_comm_id}, Refused::kReq, reason::kNoResources);
        return;
    }
    take_request(*c, req, path);
    Event& event = lifecycle_.add_event(*c, EventType::kConnectRequest);
    event.listener = static_cast<ListenerId>(listener->id);
    event.cookie = listener->params.cookie;
    event.flow_control = req.flow_control;
    put_data(event, req.private_data, carries_ip_header(req.service_id) ? wire::CmIpHeader::kBytes : 0,
             req.private_data.size());
}

void Receiver::take_request(Connection& c, const wire::CmReq& req, const wire::CmPath& path) noexcept {
    if (carries_ip_header(req.service_id)) {
        c.peer_port =
            wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>())
                .source_port;
    }
    c.alternate_path = std::ranges::any_of(req.alternate_path, [](std::uint8_t byte) { return byte != 0; });
    c.peer_qpn = req.local_qpn;
    connections_.index_peer_qpn(c);
    c.recv_psn = random_.sequence_number();
    c.send_psn = req.starting_psn;
    // What one side may have open, the other must hold ready.
    c.responder_resources = std::min(req.initiator_depth, config_.max_rd_atomic);
    c.initiator_depth = std::min(req.responder_resources, config_.max_rd_atomic);
    c.path_mtu = req.path_mtu;
    // 0 would mean to wait forever for an acknowledgement.
    const std::uint8_t wanted = path.local_ack_timeout;
    c.ack_timeout = wanted == 0 ? ack_timeout_code(config_.ack_delay, Timing{}.packet_lifetime)
                                : std::min(wanted, kMostAckTimeout);
    c.retry_count = req.retry_count;
    c.rnr_retry_count = req.rnr_retry_count;
    c.peer_srq = req.srq;
    c.flow_label = path.flow_label;
    c.traffic_class = path.traffic_class;
    c.timing.response_timeout = std::min(req.local_cm_response_timeout, kMostResponseTimeout);
    c.timing.packet_lifetime = static_cast<std::uint8_t>(std::min<int>(c.ack_timeout - 1, kMostLifetime));
    c.timing.max_retries = req.max_cm_retries;
}

// The same request once more: our answer was lost, or takes long.
void Receiver::repeat_request(Connection& c, const In& in) noexcept {
    ++counters_.duplicates_in;
    if (c.state == State::kReqReceived) {
        lifecycle_.ask_for_patience(c, Refused::kReq);
    } else if (c.state == State::kRepSent) {
        lifecycle_.push(c, c.last);
    } else if (c.state == State::kTimeWait && c.end_reason != 0) {
        // The same words, but about what the peer knows: it may never have got our REP.
        auto rej =
            wire::decode<wire::CmRej>(std::span(c.last).subspan<wire::MadHeader::kBytes, wire::kCmBytes>());
        rej.message = static_cast<std::uint8_t>(Refused::kReq);
        lifecycle_.push(c, to_mad(c.tid, rej));
        c.copies_left = 0; // it asks
        connections_.set_deadline(c, in.now + c.answer_time() + 2 * time_of(c.timing.packet_lifetime));
    } else if (c.state == State::kTimeWait) {
        refuse(in, {c.comm_id, c.remote_comm_id}, Refused::kReq, reason::kStaleConnection);
    }
}

// Somebody at the peer's address uses a name that belongs to this connection. The peer may have died and
// begun anew, or a stranger forges its address and guesses names: one message ends nothing, the peer itself
// is asked.
void Receiver::doubt(Connection& c, engine::Nanoseconds now) noexcept {
    ++counters_.stale_in;
    lifecycle_.ask_peer(c, now);
}

void Receiver::on(const wire::CmRep& rep, const In& in) noexcept {
    Connection* c = connections_.find(rep.remote_comm_id);
    if (c == nullptr || !c->active || c->datagram || !(c->peer == in.source)) {
        refuse(in, {rep.remote_comm_id, rep.local_comm_id}, Refused::kRep, reason::kInvalidCommId);
    } else if (c->state == State::kReqSent) {
        take_reply(*c, rep, in);
    } else {
        repeat_reply(*c, rep, in);
    }
}

void Receiver::take_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept {
    if (rep.local_comm_id == 0 || rep.local_qpn <= wire::kGsiQpn) {
        ++counters_.dropped_malformed;
        return;
    }
    if (Connection* holder = connections_.find_by_peer_qpn(in.source, rep.local_qpn); holder != nullptr) {
        doubt(*holder, in.now);
        c.remote_comm_id = rep.local_comm_id;
        lifecycle_.enter(c, State::kRepReceived); // what is refused is the answer
        lifecycle_.report(c, EventType::kRejected, reason::kStaleConnection);
        lifecycle_.reject(c, reason::kStaleConnection, {}, in.now);
        return;
    }
    lifecycle_.enter(c, State::kRepReceived);
    c.remote_comm_id = rep.local_comm_id;
    connections_.index_remote_id(c);
    c.peer_qpn = rep.local_qpn;
    connections_.index_peer_qpn(c);
    c.send_psn = rep.starting_psn;
    c.initiator_depth = std::min(c.initiator_depth, rep.responder_resources);
    c.responder_resources = std::min(c.responder_resources, rep.initiator_depth);
    c.rnr_retry_count = rep.rnr_retry_count;
    c.ack_timeout =
        std::min(ack_timeout_code(rep.target_ack_delay, c.timing.packet_lifetime), kMostAckTimeout);
    c.peer_srq = rep.srq;
    Event& event = lifecycle_.add_event(c, EventType::kConnectResponse);
    event.flow_control = rep.flow_control;
    put_data(event, rep.private_data, 0, rep.private_data.size());
}

// The same answer once more, or one that comes too late.
void Receiver::repeat_reply(Connection& c, const wire::CmRep& rep, const In& in) noexcept {
    ++counters_.duplicates_in;
    const bool same = c.remote_comm_id == rep.local_comm_id;
    if (c.state == State::kRepReceived && same) {
        lifecycle_.ask_for_patience(c, Refused::kRep);
    } else if (c.state == State::kEstablished && same) {
        lifecycle_.push(c, c.last); // RTU
    } else if (c.is_over() && c.end_reason != 0) {
        refuse(in, {rep.remote_comm_id, rep.local_comm_id}, Refused::kRep, c.end_reason);
    }
}

void Receiver::on(const wire::CmRtu& rtu, const In& in) noexcept {
    Connection* c = find_exact(rtu.remote_comm_id, rtu.local_comm_id, in);
    if (c == nullptr) {
        ++counters_.dropped_unknown;
    } else if (c->state == State::kRepSent) {
        lifecycle_.peer_is_ready(*c);
    } else {
        ++counters_.duplicates_in;
        if (c->state == State::kEstablished) {
            lifecycle_.peer_confirms(*c, in.now);
        }
    }
}

void Receiver::on(const wire::CmMra& mra, const In& in) noexcept {
    const bool of_request = mra.message == static_cast<std::uint8_t>(Refused::kReq);
    Connection* c = of_request ? connections_.find(mra.remote_comm_id)
                               : find_exact(mra.remote_comm_id, mra.local_comm_id, in);
    const State waiting = of_request ? State::kReqSent : State::kRepSent;
    if (c == nullptr || c->state != waiting || !(c->peer == in.source)) {
        ++counters_.dropped_unknown;
        return;
    }
    if (c->ask_often_until != 0) {
        c->is_there = true; // and is asked on: its listener may close, and another one take the request
        return;
    }
    const engine::Nanoseconds asked = time_of(std::min(mra.service_timeout, kMostServiceTimeout));
    lifecycle_.expect_answer(*c, asked + c->answer_time(), in.now);
}

// The connection that a REJ is about. A peer that never got an answer knows its own id only, and the side
// that asked may not know the other's yet.
Connection* Receiver::rejected_by(const wire::CmRej& rej, const In& in) const noexcept {
    if (rej.remote_comm_id == 0) {
        Connection* c = rej.reason == reason::kTimeout
                            ? connections_.find_passive(in.source, rej.local_comm_id, false)
                            : nullptr;
        return c != nullptr && (c->state == State::kReqReceived || c->state == State::kRepSent) ? c : nullptr;
    }
    Connection* c = connections_.find(rej.remote_comm_id);
    if (c == nullptr || c->datagram || !(c->peer == in.source)) {
        return nullptr;
    }
    const bool both_known = c->remote_comm_id == rej.local_comm_id && rej.local_comm_id != 0;
    return both_known || c->state == State::kReqSent ? c : nullptr;
}

void Receiver::on(const wire::CmRej& rej, const In& in) noexcept {
    Connection* c = rejected_by(rej, in);
    if (c == nullptr || c->is_over()) {
        ++counters_.dropped_unknown;
        return;
    }
    if (c->state == State::kReqSent && try_smaller_mtu(*c, rej, in)) {
        return;
    }
    const bool was_up = c->established;
    counters_.rejects_in += was_up ? 0 : 1;
    if (!c->orphan) {
        Event& event = lifecycle_.add_event(*c, was_up ? EventType::kDisconnected : EventType::kRejected);
        event.reason = rej.reason;
        put_data(event, rej.private_data, 0, rej.private_data.size());
    }
    if (!was_up) {
        c->end_reason = std::max(rej.reason, std::uint16_t{1});
        c->last = make_rej(*c, config_, Refused::kReq, c->end_reason, {}); // for copies of the request
    }
    if (c->state == State::kReqSent && rej.reason != reason::kStaleConnection) {
        lifecycle_.close(*c); // its queue pair never knew the peer
    } else {
        lifecycle_.time_wait(*c, in.now);
    }
}

// A peer whose link carries less says how much; then we ask for that.
bool Receiver::try_smaller_mtu(Connection& c, const wire::CmRej& rej, const In& in) noexcept {
    const std::uint8_t offered = rej.info[0];
    if (rej.reason != reason::kInvalidMtu || rej.info_bytes < 1 || offered < 1 || offered >= c.path_mtu) {
        return false;
    }
    const auto message = std::span(c.last).subspan<wire::MadHeader::kBytes, wire::kCmBytes>();
    auto req = wire::decode<wire::CmReq>(message);
    req.path_mtu = c.path_mtu = offered;
    c.tid = random_.transaction_id();
    c.ask_often_until = 0;
    lifecycle_.say(c, to_mad(c.tid, req));
    lifecycle_.expect_answer(c, c.answer_time(), in.now);
    return true;
}

void Receiver::on(const wire::CmDreq& dreq, const In& in) noexcept {
    Connection* c = find_exact(dreq.remote_comm_id, dreq.local_comm_id, in);
    if (c != nullptr && c->qpn != dreq.remote_qpn) {
        ++counters_.dropped_unknown;
        return;
    }
    // The end of a connection that we have forgotten is confirmed, too.
    lifecycle_.push(in.destination, in.source, make_drep(dreq, in.tid));
    if (c == nullptr || c->is_over() || c->state == State::kReqReceived) {
        ++counters_.duplicates_in;
        return;
    }
    if (c->state ==
        State::kRepSent) { // a peer that ends the connection has had it: its RTU was lost, or is late
        lifecycle_.peer_is_ready(*c);
    }
    lifecycle_.report(*c, EventType::kDisconnected);
    lifecycle_.time_wait(*c, in.now);
}

void Receiver::on(const wire::CmDrep& drep, const In& in) noexcept {
    Connection* c = find_exact(drep.remote_comm_id, drep.local_comm_id, in);
    if (c == nullptr || c->state != State::kDreqSent) {
        ++counters_.dropped_unknown;
        return;
    }
    lifecycle_.report(*c, EventType::kDisconnected);
    lifecycle_.time_wait(*c, in.now);
}

void Receiver::refuse_sidr(const In& in, const wire::CmSidrReq& req) noexcept {
    wire::CmSidrRep rep;
    rep.request_id = req.request_id;
    rep.service_id = req.service_id;
    rep.status = kSidrNotSupported;
    ++counters_.rejects_out;
    lifecycle_.push(in.destination, in.source, to_mad(in.tid, rep));
}

void Receiver::on(const wire::CmSidrReq& req, const In& in) noexcept {
    if (Connection* known = find_request(req.request_id, true, in); known != nullptr) {
        ++counters_.duplicates_in;
        if (known->state == State::kTimeWait) {
            lifecycle_.push(*known, known->last);
        }
        return;
    }
    const bool has_header = carries_ip_header(req.service_id);
    const auto header =
        wire::decode<wire::CmIpHeader>(std::span(req.private_data).first<wire::CmIpHeader::kBytes>());
    Listener* listener = listeners_.find(req.service_id, in.destination);
    if (listener == nullptr && may_listen_soon(req.service_id, req.request_id, in)) {
        ++counters_.dropped_backlog;
        return;
    }
    if (listener == nullptr || !is_default_partition(req.pkey) ||
        (has_header && !ip_header_fits(header, in.source, in.destination))) {
        refuse_sidr(in, req);
        return;
    }
    Connection* c = listener->has_room() ? make_passive(*listener, req.request_id, in) : nullptr;
    if (c == nullptr) {
        ++counters_.dropped_backlog;
        return;
    }
    c->datagram = true;
    c->peer_port = has_header ? header.source_port : 0;
    Event& event = lifecycle_.add_event(*c, EventType::kConnectRequest);
    event.listener = static_cast<ListenerId>(listener->id);
    event.cookie = listener->params.cookie;
    put_data(event, req.private_data, has_header ? wire::CmIpHeader::kBytes : 0, req.private_data.size());
}

void Receiver::on(const wire::CmSidrRep& rep, const In& in) noexcept {
    Connection* c = connections_.find(rep.request_id);
    if (c == nullptr || c->state != State::kSidrSent || !(c->peer == in.source)) {
        ++counters_.dropped_unknown;
        return;
    }
    counters_.rejects_in += rep.status == kSidrValid ? 0 : 1;
    if (!c->orphan) {
        Event& event =
            lifecycle_.add_event(*c, rep.status == kSidrValid ? EventType::kResolved : EventType::kRejected);
        event.reason = rep.status;
        event.qpn = rep.qpn;
        event.qkey = rep.qkey;
        put_data(event, rep.private_data, 0, rep.private_data.size());
    }
    lifecycle_.close(*c);
}

// Nobody here has a second path; who asks for one learns whether the connection is still there.
void Receiver::on(const wire::CmLap& lap, const In& in) noexcept {
    const Connection* c = find_exact(lap.remote_comm_id, lap.local_comm_id, in);
    wire::CmApr apr;
    apr.local_comm_id = lap.remote_comm_id;
    apr.remote_comm_id = lap.local_comm_id;
    apr.status = c != nullptr && !c->is_over() ? kAprNotSupported : kAprInvalidCommId;
    lifecycle_.push(in.destination, in.source, to_mad(in.tid, apr));
}

void Receiver::on(const wire::CmApr& apr, const In& in) noexcept {
    Connection* c = find_exact(apr.remote_comm_id, apr.local_comm_id, in);
    if (c == nullptr) {
        ++counters_.dropped_unknown;
        return;
    }
    lifecycle_.peer_answers(*c, in.tid, apr.status != kAprInvalidCommId, in.now);
}

} // namespace sluice::roce::cm
