// SPDX-License-Identifier: BSD-3-Clause
#include "roce/cm/lifecycle.hpp"

#include <algorithm>

#include "core/probes.hpp"

namespace sluice::roce::cm {

namespace {

constexpr std::uint32_t kOutbox = 256, kEvents = 64;
constexpr engine::Nanoseconds kBetweenQuestions = 1'000'000'000;

// On this machine's loopback network nothing is slow or far. A peer that doesn't answer isn't there yet, or
// won't be: after a time it is looked for. One that is there by then leaves a request unanswered for two
// seconds more at most, since it may be about to listen, and answers the next one.
constexpr engine::Nanoseconds kLookAfter = 2'000'000'000;
constexpr engine::Nanoseconds kAskOftenFor = 4'500'000'000;
constexpr engine::Nanoseconds kOften = 50'000'000;

// An answer behind an MRA is said again after 50, 150, 350 and 750 ms.
constexpr std::uint8_t kCopies = 4;
constexpr engine::Nanoseconds kFirstCopy = 50'000'000;

// As rdma_cm asks for: 69 s.
constexpr std::uint8_t kServiceTimeout = 24;

bool may_not_be_there(const Connection& c) noexcept {
    return c.is_unanswered() && engine::is_loopback(c.peer);
}

engine::Nanoseconds until_next_question(const Connection& c) noexcept {
    return c.ask_often_until != 0 ? std::min(kOften, c.answer_time()) : c.answer_time();
}

} // namespace

Lifecycle::Lifecycle(const ManagerConfig& config, ManagerCounters& counters, RandomNumbers& random,
                     Listeners& listeners, Connections& connections)
    : config_(config), counters_(counters), random_(random), listeners_(listeners), connections_(connections),
      events_(kEvents), outbox_(kOutbox), silent_(kEvents), doubtful_(kEvents) {}

void Lifecycle::begin(Connection& c, const Mad& first, engine::Nanoseconds now) noexcept {
    tick(now);
    c.retries_left = c.timing.max_retries;
    c.give_up_at = c.timing.give_up_after == 0 ? engine::kNever : now + c.timing.give_up_after;
    c.ask_often_until = may_not_be_there(c) ? now + kAskOftenFor : 0;
    c.is_looked_for = false;
    say(c, first);
    expect_answer(c, until_next_question(c), now);
}

void Lifecycle::say(Connection& c, const Mad& mad) noexcept {
    c.last = mad;
    push(c, mad);
}

void Lifecycle::push(const engine::Address& source, const engine::Address& destination,
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

void Lifecycle::expect_answer(Connection& c, engine::Nanoseconds within, engine::Nanoseconds now) noexcept {
    connections_.set_deadline(c, std::min(now + within, c.give_up_at));
}

void Lifecycle::ask_for_patience(Connection& c, Refused message) noexcept {
    c.asked_for_patience = true;
    push(c, make_mra(c, message, kServiceTimeout));
}

void Lifecycle::repeat_if_awaited(Connection& c, engine::Nanoseconds now) noexcept {
    if (c.asked_for_patience) {
        c.copies_left = kCopies;
        connections_.set_deadline(c, now + kFirstCopy);
    }
}

void Lifecycle::set_state(Connection& c, [[maybe_unused]] State from, State to) noexcept {
    SLUICE_PROBE(cm_state, c.comm_id, static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
                 c.qpn);
    ++counters_.entered[static_cast<std::size_t>(to)];
    c.state = to;
}

void Lifecycle::start_in(Connection& c, State state) noexcept {
    set_state(c, state, state);
}

void Lifecycle::enter(Connection& c, State state) noexcept {
    counters_.ended += c.state == State::kEstablished && state != State::kEstablished ? 1 : 0;
    set_state(c, c.state, state);
    c.ask_often_until = 0;
    c.copies_left = 0;
    listeners_.leave(c);
    connections_.set_deadline(c, engine::kNever);
}

void Lifecycle::establish(Connection& c) noexcept {
    counters_.established += c.state != State::kEstablished ? 1 : 0;
    enter(c, State::kEstablished);
    c.established = true;
    c.give_up_at = engine::kNever;
    keep_alive(c, now_);
}

void Lifecycle::confirm(Connection& c) noexcept {
    establish(c);
    say(c, make_rtu(c));
    repeat_if_awaited(c, now_);
}

void Lifecycle::peer_is_ready(Connection& c) noexcept {
    establish(c);
    report(c, EventType::kEstablished);
}

void Lifecycle::reject(Connection& c, std::uint16_t why, std::span<const std::uint8_t> data,
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
        repeat_if_awaited(c, now);
    }
}

void Lifecycle::disconnect(Connection& c, engine::Nanoseconds now) noexcept {
    enter(c, State::kDreqSent);
    c.timing.give_up_after = 0; // was for connecting
    begin(c, make_dreq(c, random_.transaction_id()), now);
    begin_to_look(c, now);
    await_end(c, now);
}

// A peer that has the connection answers a second REP by a second RTU.
void Lifecycle::ask_peer(Connection& c, engine::Nanoseconds now) noexcept {
    if (c.state != State::kEstablished || c.active || c.asked || now < c.ask_again_at) {
        return;
    }
    c.asked = true;
    c.ask_again_at = now + kBetweenQuestions;
    c.retries_left = c.timing.max_retries;
    push(c, c.last);
    expect_answer(c, c.answer_time(), now);
}

void Lifecycle::peer_confirms(Connection& c, engine::Nanoseconds now) noexcept {
    if (c.asked) {
        c.asked = false;
        keep_alive(c, now);
    }
}

void Lifecycle::time_wait(Connection& c, engine::Nanoseconds now) noexcept {
    enter(c, State::kTimeWait);
    connections_.forget_peer_qpn(c); // the peer may use its number again
    wait_for_late_copies(c, now);
    if (c.orphan) {
        connections_.append_orphan(c);
    }
}

// Until no copy of a message is on its way any more; and after a rejection, until the peer would have
// asked again.
void Lifecycle::wait_for_late_copies(Connection& c, engine::Nanoseconds now) noexcept {
    const engine::Nanoseconds wait = 2 * time_of(c.timing.packet_lifetime);
    connections_.set_deadline(c, now + (c.established ? wait : wait + c.answer_time()));
}

void Lifecycle::close(Connection& c) noexcept {
    enter(c, State::kClosed);
    connections_.forget_keys(c);
    if (c.orphan) {
        connections_.release(c);
    }
}

void Lifecycle::expire(Connection& c, engine::Nanoseconds now) noexcept {
    if (c.copies_left > 0) {
        send_copy(c, now);
    } else if (c.state == State::kTimeWait) {
        if (c.established) {
            report(c, EventType::kTimewaitExit);
        }
        close(c);
    } else if (c.state == State::kEstablished && !c.asked) {
        ask_for_life(c, now);
    } else if (c.state == State::kDreqSent && now >= c.look_at) {
        look_for_peer(c, now);
    } else if (c.ask_often_until != 0 && now < c.give_up_at) {
        ask_often(c, now);
    } else if (c.retries_left > 0 && now < c.give_up_at) {
        --c.retries_left;
        ++counters_.repeats_out;
        push(c, c.last);
        c.state == State::kDreqSent ? await_end(c, now) : expect_answer(c, c.answer_time(), now);
    } else {
        give_up(c, now);
    }
}

void Lifecycle::send_copy(Connection& c, engine::Nanoseconds now) noexcept {
    const int sent = kCopies - c.copies_left--;
    ++counters_.repeats_out;
    push(c, c.last);
    if (c.copies_left > 0) {
        connections_.set_deadline(c, now + (kFirstCopy << (sent + 1)));
    } else if (c.state == State::kTimeWait) {
        wait_for_late_copies(c, now);
    } else {
        keep_alive(c, now);
    }
}

// None of these counts as a retry.
void Lifecycle::ask_often(Connection& c, engine::Nanoseconds now) noexcept {
    if (now >= c.ask_often_until - (kAskOftenFor - kLookAfter) && !c.is_looked_for && !c.is_there &&
        !silent_.full()) {
        silent_.grow() = static_cast<ConnectionId>(c.comm_id);
        c.is_looked_for = true;
    }
    if (now >= c.ask_often_until) {
        c.ask_often_until = 0;
    }
    ++counters_.repeats_out;
    push(c, c.last);
    expect_answer(c, until_next_question(c), now);
}

bool Lifecycle::take_first(engine::Ring<ConnectionId>& from, ConnectionId& id) noexcept {
    if (from.empty()) {
        return false;
    }
    id = from.front();
    from.pop_front();
    return true;
}

bool Lifecycle::next_silent(ConnectionId& id) noexcept {
    return take_first(silent_, id);
}

// As if the connection manager there had answered.
void Lifecycle::nobody_there(Connection& c) noexcept {
    report(c, EventType::kRejected,
           c.datagram ? std::uint16_t{kSidrNotSupported} : reason::kInvalidServiceId);
    c.end_reason = reason::kInvalidServiceId;
    close(c);
}

void Lifecycle::give_up(Connection& c, engine::Nanoseconds now) noexcept {
    switch (c.state) {
    case State::kDreqSent:
        report(c, EventType::kDisconnected, reason::kTimeout);
        time_wait(c, now);
        return;
    case State::kEstablished: // it was asked
        disconnect(c, now);
        return;
    case State::kSidrSent:
        report(c, EventType::kUnreachable, reason::kTimeout);
        close(c);
        return;
    default: // the handshake
        report(c, EventType::kUnreachable, reason::kTimeout);
        reject(c, reason::kTimeout, {}, now);
    }
}

Event& Lifecycle::add_event(const Connection& c, EventType type) noexcept {
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

void Lifecycle::report(const Connection& c, EventType type, std::uint16_t why) noexcept {
    if (!c.orphan) {
        add_event(c, type).reason = why;
    }
}

bool Lifecycle::transmit(OutMad& out) noexcept {
    if (outbox_.empty()) {
        return false;
    }
    out = outbox_.front();
    outbox_.pop_front();
    ++counters_.mads_out;
    return true;
}

bool Lifecycle::next_event(Event& out) noexcept {
    if (events_.empty()) {
        return false;
    }
    out = events_.front();
    events_.pop_front();
    return true;
}

} // namespace sluice::roce::cm
