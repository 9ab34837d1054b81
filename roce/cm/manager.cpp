// SPDX-License-Identifier: BSD-3-Clause
//
// Slots and timers, and what the program asks for. What peers say is in receive.cpp.
#include "roce/cm/manager.hpp"

#include <bit>
#include <new>

namespace sluice::roce::cm {
namespace {

constexpr std::uint32_t kOutbox = 256, kEvents = 64;
constexpr std::uint32_t kMostConnections = std::uint32_t{1} << 16; // leaves 16 random bits in each id
constexpr engine::Address kOurselves{};                            // by_qpn_ knows one device
constexpr std::uint8_t kMostRetries = 15, kMostQpRetries = 7;      // what their fields hold
constexpr std::uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;

Error wrong_state(const char* text) noexcept {
    return Error(ErrorKind::kInvalidState, text);
}

} // namespace

ConnectionManager::ConnectionManager(const ManagerConfig& config)
    : config_(config), random_(config.seed),
      slots_(std::clamp<std::uint32_t>(config.max_connections, 1, kMostConnections)),
      slot_mask_(static_cast<std::uint32_t>(std::bit_ceil(slots_.size()) - 1)), lives_(slots_.size()),
      by_remote_id_(static_cast<std::uint32_t>(slots_.size()), ~config.seed),
      by_remote_qpn_(static_cast<std::uint32_t>(slots_.size()), ~config.seed),
      by_qpn_(static_cast<std::uint32_t>(slots_.size()), ~config.seed), deadlines_(slots_.size()),
      listeners_(config.max_listeners), events_(kEvents), outbox_(kOutbox) {
    free_slots_.reserve(slots_.size());
    for (std::size_t slot = slots_.size(); slot-- > 0;) {
        free_slots_.push_back(static_cast<std::uint32_t>(slot));
    }
}

std::uint64_t ConnectionManager::draw_64() noexcept {
    const std::uint64_t upper = engine::draw(random_);
    return upper << 32 | engine::draw(random_);
}

// The slot, and above it a number that no earlier life of the slot has had: a peer remembers our ids for a
// while, and would take a new connection for an old one. A walk through all there are, in an order that
// nobody knows who doesn't know the seed.
std::uint32_t ConnectionManager::new_comm_id(std::uint32_t slot) noexcept {
    const int slot_bits = std::popcount(slot_mask_);
    const std::uint32_t mask = ~std::uint32_t{0} >> slot_bits;
    const int half = (32 - slot_bits) / 2;
    std::uint32_t life = lives_[slot]++;
    std::uint64_t key = config_.seed + slot;
    for (int round = 0; round < 3; ++round) { // each step can be undone, so that no two lives meet
        life = (life + engine::draw(key)) & mask;
        life = (life * (engine::draw(key) | 1)) & mask;
        life ^= life >> half;
    }
    const std::uint32_t made = life << slot_bits | slot; // at most 16 bits are the slot's
    return made != 0 ? made : new_comm_id(slot);
}

Connection* ConnectionManager::find(std::uint32_t comm_id) const noexcept {
    const std::uint32_t slot = comm_id & slot_mask_;
    Connection* found = slot < slots_.size() ? slots_[slot].get() : nullptr;
    return found != nullptr && found->comm_id == comm_id ? found : nullptr;
}

Result<Connection*> ConnectionManager::get(ConnectionId id) const {
    Connection* found = find(static_cast<std::uint32_t>(id));
    if (found == nullptr || found->orphan) {
        return Error(ErrorKind::kInvalidHandle, "no such connection; it may have been destroyed");
    }
    return found;
}

// Null when there is no room.
Connection* ConnectionManager::make(const engine::Address& local, const engine::Address& peer) noexcept {
    if (free_slots_.empty() && !make_room()) {
        return nullptr;
    }
    const std::uint32_t slot = free_slots_.back();
    slots_[slot].reset(new (std::nothrow) Connection);
    Connection* made = slots_[slot].get();
    if (made == nullptr) {
        return nullptr;
    }
    free_slots_.pop_back();
    ++live_;
    made->comm_id = new_comm_id(slot);
    made->local = local;
    made->peer = peer;
    return made;
}

// Time-wait is a courtesy: who floods us loses it first.
bool ConnectionManager::make_room() noexcept {
    if (oldest_orphan_ == kNobody) {
        return false;
    }
    ++counters_.time_wait_cut_short;
    release(*slots_[oldest_orphan_]);
    return true;
}

void ConnectionManager::release(Connection& c) noexcept {
    const std::uint32_t slot = slot_of(c);
    leave_backlog(c);
    remove_orphan(c);
    by_remote_id_.erase(slot);
    by_remote_qpn_.erase(slot);
    by_qpn_.erase(slot);
    deadlines_.set(slot, engine::kNever);
    slots_[slot].reset();
    free_slots_.push_back(slot); // within what was reserved
    --live_;
}

void ConnectionManager::append_orphan(Connection& c) noexcept {
    const std::uint32_t slot = slot_of(c);
    c.older = newest_orphan_;
    (newest_orphan_ == kNobody ? oldest_orphan_ : slots_[newest_orphan_]->newer) = slot;
    newest_orphan_ = slot;
}

void ConnectionManager::remove_orphan(Connection& c) noexcept {
    if (c.older == kNobody && oldest_orphan_ != slot_of(c)) {
        return; // not in the list
    }
    (c.older == kNobody ? oldest_orphan_ : slots_[c.older]->newer) = c.newer;
    (c.newer == kNobody ? newest_orphan_ : slots_[c.newer]->older) = c.older;
    c.older = c.newer = kNobody;
}

void ConnectionManager::leave_backlog(Connection& c) noexcept {
    if (c.listener != kNobody) {
        --listeners_[c.listener].pending;
        c.listener = kNobody;
    }
}

Result<ListenerId> ConnectionManager::listen(const ListenParams& params) {
    Listener* free = nullptr;
    for (Listener& listener : listeners_) {
        const bool used = listener.id != 0;
        const engine::Address& local = listener.params.local;
        if (used && listener.params.service_id == params.service_id &&
            (local == engine::Address{} || params.local == engine::Address{} || local == params.local)) {
            return Error(ErrorKind::kExists, "somebody listens at this service or port already");
        }
        if (!used && listener.pending == 0) {
            free = &listener;
        }
    }
    if (free == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "no room for another listener; close one first");
    }
    *free = {params, next_listener_, 0};
    next_listener_ = std::max<std::uint32_t>(next_listener_ + 1, 1);
    return static_cast<ListenerId>(free->id);
}

void ConnectionManager::unlisten(ListenerId id) noexcept {
    for (Listener& listener : listeners_) {
        if (listener.id == static_cast<std::uint32_t>(id)) {
            listener.id = 0;
        }
    }
}

Result<std::uint16_t> ConnectionManager::free_port(std::uint16_t port_space) noexcept {
    constexpr std::uint32_t kCount = kLastEphemeral - kFirstEphemeral + 1;
    const std::uint32_t start = engine::draw(random_) % kCount;
    for (std::uint32_t i = 0; i < kCount; ++i) {
        const auto port = static_cast<std::uint16_t>(kFirstEphemeral + (start + i) % kCount);
        const std::uint64_t service = wire::cm_service_id(port_space, port);
        if (std::ranges::none_of(listeners_, [&](const Listener& listener) {
                return listener.id != 0 && listener.params.service_id == service;
            })) {
            return port;
        }
    }
    return Error(ErrorKind::kExists, "every ephemeral port is listened at");
}

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
    Connection* c = make(local, peer);
    if (c == nullptr) {
        return Error(ErrorKind::kInsufficientResources,
                     "no room for another connection; destroy one, or wait for the end of a time-wait");
    }
    c->active = true;
    c->datagram = datagram;
    c->service_id = service_id;
    c->timing = timing;
    c->tid = draw_64();
    c->flow_label = engine::draw(random_) & 0xfffff;
    return c;
}

Result<ConnectionId> ConnectionManager::connect(const ConnectParams& params, engine::Nanoseconds now) {
    if (params.path_mtu < 1 || params.path_mtu > config_.max_path_mtu ||
        params.retry_count > kMostQpRetries || params.rnr_retry_count > kMostQpRetries) {
        return Error(ErrorKind::kInvalidArgument,
                     "the MTU is a code from 1 to the port's, and both retry counts are at most 7");
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
    c.recv_psn = engine::draw(random_) & wire::kPsnMask;
    c.responder_resources = std::min(params.responder_resources, config_.max_rd_atomic);
    c.initiator_depth = std::min(params.initiator_depth, config_.max_rd_atomic);
    c.path_mtu = params.path_mtu;
    c.retry_count = params.retry_count;
    c.rnr_retry_count = c.rnr_retry_for_peer = params.rnr_retry_count;
    c.flow_control = params.flow_control;
    c.srq = params.srq;
    c.state = State::kReqSent;
    begin(c, make_req(c, config_, params.private_data), now);
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
    c.state = State::kSidrSent;
    begin(c, make_sidr_req(c, params.private_data), now);
    return static_cast<ConnectionId>(c.comm_id);
}

void ConnectionManager::begin(Connection& c, const Mad& first, engine::Nanoseconds now) noexcept {
    c.retries_left = c.timing.max_retries;
    c.give_up_at = c.timing.give_up_after == 0 ? engine::kNever : now + c.timing.give_up_after;
    say(c, first);
    expect_answer(c, c.answer_time(), now);
}

Connection* ConnectionManager::holder_of(std::uint32_t qpn) const noexcept {
    const std::uint32_t slot =
        by_qpn_.find(kOurselves, qpn, [&](std::uint32_t candidate) { return slots_[candidate]->qpn == qpn; });
    return slot == kNobody ? nullptr : slots_[slot].get();
}

Result<void> ConnectionManager::check_qpn(std::uint32_t qpn) const {
    if (qpn <= wire::kGsiQpn || qpn > wire::kQpnMask) {
        return Error(ErrorKind::kInvalidArgument, "a queue pair has a number from 2 to 2^24 - 1");
    }
    if (holder_of(qpn) != nullptr) {
        return Error(ErrorKind::kBusy, "this queue pair has a connection, or its last one is in time-wait; "
                                       "wait for its end, or take a new queue pair");
    }
    return {};
}

void ConnectionManager::claim_qpn(Connection& c, std::uint32_t qpn) noexcept {
    c.qpn = qpn;
    by_qpn_.insert(kOurselves, qpn, slot_of(c));
}

Result<QpSettings> ConnectionManager::qp_settings(ConnectionId id) const {
    const Result<Connection*> found = get(id);
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
    Result<Connection*> found = get(id);
    if (!found) {
        return std::move(found).error();
    }
    (*found)->cookie = cookie;
    return {};
}

Result<void> ConnectionManager::check_accept(ConnectionId id, const AcceptParams& params) const {
    const Result<Connection*> found = get(id);
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
    if (params.rnr_retry_count > kMostQpRetries || params.qpn > wire::kQpnMask) {
        return Error(ErrorKind::kInvalidArgument,
                     "an RNR retry count is at most 7, a queue pair's number 2^24 - 1");
    }
    return datagram ? Result<void>() : check_qpn(params.qpn);
}

Result<void> ConnectionManager::accept(ConnectionId id, const AcceptParams& params, engine::Nanoseconds now) {
    if (Result<void> possible = check_accept(id, params); !possible) {
        return possible;
    }
    Connection& c = *find(static_cast<std::uint32_t>(id));
    if (c.datagram) {
        c.qpn = params.qpn; // serves many peers at once, so none claims it
        say(c, make_sidr_rep(c, kSidrValid, params.qkey, params.private_data));
        time_wait(c, now);
        return {};
    }
    claim_qpn(c, params.qpn);
    c.responder_resources = std::min(c.responder_resources, params.responder_resources);
    c.initiator_depth = std::min(c.initiator_depth, params.initiator_depth);
    c.flow_control = params.flow_control;
    c.srq = params.srq;
    c.rnr_retry_for_peer = params.rnr_retry_count;
    enter(c, State::kRepSent);
    begin(c, make_rep(c, config_, params.private_data), now);
    return {};
}

Result<void> ConnectionManager::ready(ConnectionId id) {
    Result<Connection*> found = get(id);
    if (!found) {
        return std::move(found).error();
    }
    Connection& c = **found;
    if (c.state != State::kRepReceived) {
        return wrong_state("there is no answer of the peer to confirm");
    }
    establish(c);
    say(c, make_rtu(c));
    return {};
}

void ConnectionManager::establish(Connection& c) noexcept {
    enter(c, State::kEstablished);
    c.established = true;
    c.give_up_at = engine::kNever;
}

Result<void> ConnectionManager::reject(ConnectionId id, std::uint16_t why, std::span<const std::uint8_t> data,
                                       engine::Nanoseconds now) {
    Result<Connection*> found = get(id);
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
    send_rej(c, why, data, now);
    return {};
}

// The end of what wasn't established.
void ConnectionManager::send_rej(Connection& c, std::uint16_t why, std::span<const std::uint8_t> data,
                                 engine::Nanoseconds now) noexcept {
    if (c.datagram) {
        say(c, make_sidr_rep(c, kSidrRejected, 0, data));
    } else {
        const Refused message = c.state == State::kReqReceived   ? Refused::kReq
                                : c.state == State::kRepReceived ? Refused::kRep
                                                                 : Refused::kOther;
        say(c, make_rej(c, config_, message, why, data));
    }
    ++counters_.rejects_out;
    c.end_reason = why;
    if (c.state == State::kReqSent) {
        close(c); // its queue pair never knew the peer
    } else {
        time_wait(c, now);
    }
}

Result<void> ConnectionManager::disconnect(ConnectionId id, engine::Nanoseconds now) {
    Result<Connection*> found = get(id);
    if (!found) {
        return std::move(found).error();
    }
    Connection& c = **found;
    if (c.is_over()) {
        return wrong_state("this connection is over already");
    }
    if (events_.full()) {
        return Error(ErrorKind::kBusy, "take the events first");
    }
    if (c.state == State::kEstablished) {
        send_dreq(c, now);
    } else if (c.state != State::kDreqSent) {
        tell(c, EventType::kDisconnected);
        c.state == State::kSidrSent
            ? close(c)
            : send_rej(c, c.state == State::kReqSent ? reason::kTimeout : reason::kConsumer, {}, now);
    }
    return {};
}

void ConnectionManager::send_dreq(Connection& c, engine::Nanoseconds now) noexcept {
    enter(c, State::kDreqSent);
    c.timing.give_up_after = 0; // was for connecting
    begin(c, make_dreq(c, draw_64()), now);
}

void ConnectionManager::destroy(ConnectionId id, engine::Nanoseconds now) noexcept {
    Connection* found = find(static_cast<std::uint32_t>(id));
    if (found == nullptr || found->orphan) {
        return;
    }
    Connection& c = *found;
    c.orphan = true;
    switch (c.state) {
    case State::kReqSent:
        send_rej(c, reason::kTimeout, {}, now);
        break;
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
        send_rej(c, reason::kConsumer, {}, now);
        break;
    case State::kEstablished:
        send_dreq(c, now);
        break;
    case State::kDreqSent:
        break;
    case State::kTimeWait:
        append_orphan(c);
        break;
    case State::kSidrSent:
    case State::kClosed:
        release(c);
        break;
    }
}

void ConnectionManager::communication_established(std::uint32_t qpn) noexcept {
    Connection* c = holder_of(qpn);
    if (c != nullptr && c->state == State::kRepSent && !events_.full()) {
        establish(*c);
        tell(*c, EventType::kEstablished);
    } // otherwise RTU or the next repetition will do
}

Result<void> ConnectionManager::communication_established(ConnectionId id) {
    const Result<Connection*> found = get(id);
    if (!found) {
        return found.error().clone();
    }
    communication_established((*found)->qpn);
    return {};
}

void ConnectionManager::advance(engine::Nanoseconds now) noexcept {
    while (deadlines_.next() <= now && !events_.full()) {
        expire(*slots_[deadlines_.next_index()], now);
    }
}

void ConnectionManager::expire(Connection& c, engine::Nanoseconds now) noexcept {
    if (c.state == State::kTimeWait) {
        if (c.established) {
            tell(c, EventType::kTimewaitExit);
        }
        close(c);
    } else if (c.retries_left > 0 && now < c.give_up_at) {
        --c.retries_left;
        ++counters_.repeats_out;
        push(c.local, c.peer, c.last);
        expect_answer(c, c.answer_time(), now);
    } else {
        give_up(c, now);
    }
}

void ConnectionManager::give_up(Connection& c, engine::Nanoseconds now) noexcept {
    switch (c.state) {
    case State::kDreqSent:
        tell(c, EventType::kDisconnected, reason::kTimeout);
        time_wait(c, now);
        return;
    case State::kSidrSent:
        tell(c, EventType::kUnreachable, reason::kTimeout);
        close(c);
        return;
    default: // the handshake
        tell(c, EventType::kUnreachable, reason::kTimeout);
        send_rej(c, reason::kTimeout, {}, now);
    }
}

void ConnectionManager::expect_answer(Connection& c, engine::Nanoseconds within,
                                      engine::Nanoseconds now) noexcept {
    deadlines_.set(slot_of(c), std::min(now + within, c.give_up_at));
}

void ConnectionManager::enter(Connection& c, State state) noexcept {
    c.state = state;
    leave_backlog(c);
    deadlines_.set(slot_of(c), engine::kNever);
}

void ConnectionManager::close(Connection& c) noexcept {
    enter(c, State::kClosed);
    by_remote_id_.erase(slot_of(c));
    by_remote_qpn_.erase(slot_of(c));
    by_qpn_.erase(slot_of(c));
    if (c.orphan) {
        release(c);
    }
}

// Until no copy of a message is on its way any more; and after a rejection, until the peer would have
// asked again.
void ConnectionManager::time_wait(Connection& c, engine::Nanoseconds now) noexcept {
    enter(c, State::kTimeWait);
    by_remote_qpn_.erase(slot_of(c)); // the peer may use its number again
    const engine::Nanoseconds wait = 2 * time_of(c.timing.packet_lifetime);
    deadlines_.set(slot_of(c), now + (c.established ? wait : wait + c.answer_time()));
    if (c.orphan) {
        append_orphan(c);
    }
}

void ConnectionManager::say(Connection& c, const Mad& mad) noexcept {
    c.last = mad;
    push(c.local, c.peer, mad);
}

void ConnectionManager::push(const engine::Address& source, const engine::Address& destination,
                             const Mad& mad) noexcept {
    if (outbox_.full()) {
        ++counters_.dropped_busy; // as good as lost on the way
        return;
    }
    OutMad& out = outbox_.grow();
    out.source = source;
    out.destination = destination;
    out.bytes = mad;
}

bool ConnectionManager::transmit(OutMad& out) noexcept {
    if (outbox_.empty()) {
        return false;
    }
    out = outbox_.front();
    outbox_.pop_front();
    ++counters_.mads_out;
    return true;
}

bool ConnectionManager::next_event(Event& out) noexcept {
    if (events_.empty()) {
        return false;
    }
    out = events_.front();
    events_.pop_front();
    return true;
}

// The caller has seen that there is room.
Event& ConnectionManager::add_event(const Connection& c, EventType type) noexcept {
    Event& event = events_.grow();
    event = Event{.type = type,
                  .id = static_cast<ConnectionId>(c.comm_id),
                  .cookie = c.cookie,
                  .datagram = c.datagram,
                  .local = c.local,
                  .peer = c.peer,
                  .local_port = c.local_port,
                  .peer_port = c.peer_port,
                  .qpn = c.peer_qpn,
                  .responder_resources = c.responder_resources,
                  .initiator_depth = c.initiator_depth,
                  .retry_count = c.retry_count,
                  .rnr_retry_count = c.rnr_retry_count,
                  .srq = c.peer_srq};
    return event;
}

void ConnectionManager::tell(const Connection& c, EventType type, std::uint16_t why) noexcept {
    if (!c.orphan) {
        add_event(c, type).reason = why;
    }
}

} // namespace sluice::roce::cm
