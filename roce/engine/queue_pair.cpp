// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/queue_pair.hpp"

#include <bit>

#include "core/probes.hpp"

namespace sluice::roce::engine {
namespace {

constexpr std::uint32_t kMinMtu = 256, kMaxMtu = 4096;

// What a shared queue stands in for still needs an object.
constexpr std::uint32_t at_least_one(std::uint32_t count) noexcept {
    return count == 0 ? 1 : count;
}

constexpr std::uint8_t opcodes_of(QpType type) noexcept {
    return is_xrc(type) ? wire::kXrcOpcodes : std::uint8_t{0};
}

bool carries_over_ud(WrOpcode opcode) noexcept {
    return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendImm;
}

QueuePairRow& row_from(QueuePairRows* rows, QueuePairRow& otherwise) noexcept {
    QueuePairRow* const row = rows != nullptr ? rows->acquire() : nullptr;
    return row != nullptr ? *row : otherwise;
}

// What needs no answer.
bool carries_over_uc(WrOpcode opcode) noexcept {
    return carries_over_ud(opcode) || opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm ||
           opcode == WrOpcode::kLocalInv || opcode == WrOpcode::kBindMw;
}

} // namespace

QueuePair::QueuePair(const QpConfig& config, std::uint32_t qpn, RegionTable& regions, Memory& memory,
                     EventSink& events, Counters& counters, Neighbourhood* neighbourhood, std::uint32_t seat)
    : rows_(config.rows), row_(row_from(rows_, own_row_)), context_{regions,
                                                                    memory,
                                                                    events,
                                                                    counters,
                                                                    row_.counters,
                                                                    *config.send_cq,
                                                                    *config.recv_cq,
                                                                    qpn,
                                                                    config.pd,
                                                                    {},
                                                                    config.min_silence,
                                                                    neighbourhood,
                                                                    opcodes_of(config.type)},
      seat_(seat), owner_(config.owner), type_(config.type), has_srq_(config.srq != nullptr),
      takes_receives_(!has_srq_ && !is_xrc(config.type)), blocks_own_multicast_(config.blocks_own_multicast),
      own_receives_(at_least_one(takes_receives_ ? config.max_recv_wr : 0), config.max_recv_sge),
      receives_(config.srq != nullptr ? *config.srq : own_receives_),
      sends_(context_, at_least_one(config.max_send_wr), config.max_send_sge, config.max_inline,
             config.signal_all),
      requester_(context_, sends_), responder_(context_, receives_, config.xrc_domain),
      datagram_(context_, sends_, receives_), unreliable_(context_, sends_, receives_) {
    row_.type.set(static_cast<std::uint64_t>(type_));
    row_.qpn.set(qpn);
}

QueuePair::~QueuePair() {
    withdraw();
    if (&row_ != &own_row_) {
        rows_->release(row_);
    }
}

void QueuePair::enter(QpState state) noexcept {
    state_ = state;
    row_.state.set(static_cast<std::uint64_t>(state));
}

// Of a datagram's queue pair each request names another one.
void QueuePair::show_peer() noexcept {
    QueuePairRow::put(row_.local, context_.attr.local);
    if (type_ != QpType::kUd) {
        row_.peer_qpn.set(context_.attr.dest_qpn);
        QueuePairRow::put(row_.remote, context_.attr.remote);
    }
}

// 10.3.1: forward one step at a time, and from anywhere to reset and to error.
bool QueuePair::transition_is_legal(QpState to) const noexcept {
    switch (to) {
    case QpState::kReset:
        return true;
    case QpState::kError:
        return state_ != QpState::kReset;
    case QpState::kInit:
        return state_ == QpState::kReset || state_ == QpState::kInit;
    case QpState::kReadyToReceive:
        return state_ == QpState::kInit;
    case QpState::kReadyToSend:
        return state_ == QpState::kReadyToReceive || sends_packets() || state_ == QpState::kSendError;
    case QpState::kSendDrained:
        return sends_packets();
    case QpState::kSendError:
        return false;
    }
    return false;
}

Result<void> QueuePair::check(QpState to, const QpAttributes& attributes) const {
    if (!transition_is_legal(to)) {
        return Error(ErrorKind::kInvalidState,
                     "no such queue pair transition; the order is reset, init, rtr, rts");
    }
    if (to == QpState::kReadyToReceive && (attributes.path_mtu < kMinMtu || attributes.path_mtu > kMaxMtu ||
                                           !std::has_single_bit(attributes.path_mtu))) {
        return Error(ErrorKind::kInvalidArgument, "path MTU must be 256, 512, 1024, 2048 or 4096");
    }
    if (attributes.timeout > 31 || attributes.min_rnr_timer > 31) {
        return Error(ErrorKind::kInvalidArgument, "timeout and min_rnr_timer are at most 31");
    }
    return {};
}

Result<void> QueuePair::modify(QpState to, const QpAttributes& attributes) {
    Result<void> checked = check(to, attributes);
    if (!checked) {
        return checked;
    }
    if (to == QpState::kError) {
        if (state_ != QpState::kError) {
            enter_error(Status::kFlushed);
        }
        return {};
    }
    if (to == QpState::kReset) {
        reset();
        return {};
    }
    context_.attr = attributes;
    if (to == QpState::kReadyToReceive) {
        peer_has_our_port_ = context_.is_peer_heard = false;
        responder_.start();
        unreliable_.start_receiving();
    }
    if (to == QpState::kReadyToSend && state_ == QpState::kReadyToReceive) {
        requester_.start();
        datagram_.start();
        unreliable_.start_sending();
    }
    datagram_.clear_failure();
    unreliable_.clear_failure();
    if (to == QpState::kSendDrained && state_ != to) {
        requester_.hold();
        drained_told_ = false;
    } else if (to == QpState::kReadyToSend) {
        requester_.go_on();
    }
    enter(to);
    show_peer();
    publish();
    look_if_drained();
    return {};
}

// What a peer on this host may do by itself: what it may ask for by packets.
void QueuePair::publish() noexcept {
    if (context_.neighbourhood == nullptr || type_ != QpType::kRc || !receives_packets()) {
        return;
    }
    const std::uint32_t unanswerable =
        context_.attr.max_dest_rd_atomic == 0 ? std::uint32_t{kRemoteRead | kRemoteAtomic} : 0;
    context_.neighbourhood->publish(
        seat_, PublishedConnection{
                   .ends = ends(), .pd = context_.pd, .access = context_.attr.access & ~unanswerable});
    is_published_ = true;
}

void QueuePair::withdraw() noexcept {
    if (is_published_) {
        context_.neighbourhood->withdraw_connection(seat_);
        is_published_ = false;
    }
}

void QueuePair::reset() noexcept {
    enter(QpState::kReset);
    acknowledgement_waited_ = false;
    withdraw();
    responder_.stop();
    sends_.clear();
    datagram_.stop();
    unreliable_.stop_sending();
    unreliable_.stop_receiving();
    own_receives_.clear();
    requester_.start();
    context_.regions.forget_queue_pair(context_.qpn);
}

bool QueuePair::carries(WrOpcode opcode) const noexcept {
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
        return true;
    case QpType::kUc:
        return carries_over_uc(opcode);
    case QpType::kUd:
        return carries_over_ud(opcode);
    case QpType::kXrcReceive:
        return false;
    }
    return false;
}

bool QueuePair::is_drained() const noexcept {
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        return requester_.drained();
    case QpType::kUc:
        return unreliable_.drained();
    case QpType::kUd:
        return !datagram_.unsettled();
    }
    return true;
}

Post QueuePair::post_send(const SendWr& wr) noexcept {
    if (!takes_sends()) {
        return Post::kInvalid;
    }
    if (!carries(wr.opcode)) {
        return Post::kInvalid;
    }
    const Post posted = sends_.post(wr);
    if (posted != Post::kPosted) {
        return posted;
    }
    if (!sends_packets()) {
        sends_.flush(Status::kFlushed);
    }
    return posted;
}

Post QueuePair::publish_sends(std::uint32_t count) noexcept {
    if (!takes_sends()) {
        return Post::kInvalid;
    }
    sends_.publish(count);
    if (!sends_packets()) {
        sends_.flush(Status::kFlushed);
    }
    return Post::kPosted;
}

void QueuePair::settle() noexcept {
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        break;
    case QpType::kUc:
        unreliable_.settle();
        break;
    case QpType::kUd:
        datagram_.settle();
        break;
    }
    look_if_drained();
}

void QueuePair::look_if_drained() noexcept {
    if (state_ == QpState::kSendDrained && !drained_told_ && is_drained()) {
        drained_told_ = true;
        if (context_.attr.tell_drained) {
            context_.events.event(AsyncEvent::kSendQueueDrained, context_.qpn);
        }
    }
}

Post QueuePair::post_receive(const RecvWr& wr) noexcept {
    if (state_ == QpState::kReset || !takes_receives_) {
        return Post::kInvalid;
    }
    SLUICE_PROBE(post_receive, context_.qpn, wr.wr_id, wr.sges.size());
    const Post posted = own_receives_.post(wr);
    if (posted == Post::kPosted && state_ == QpState::kError) {
        Receive flushed;
        own_receives_.take(flushed);
        context_.complete(context_.recv_cq,
                          {.wr_id = flushed.wr_id, .status = Status::kFlushed, .opcode = WcOpcode::kRecv});
    }
    return posted;
}

bool QueuePair::receives_packets() const noexcept {
    return state_ == QpState::kReadyToReceive || sends_packets() || state_ == QpState::kSendError;
}

void QueuePair::receive(const InPacket& in, const Moment& now) noexcept {
    ++context_.own_counters.packets_in;
    if (!receives_packets()) {
        context_.count_drop(&Counters::dropped_wrong_state);
        return;
    }
    if (!is_from_peer(in)) {
        context_.count_drop(&Counters::dropped_wrong_peer);
        return;
    }
    if (type_ == QpType::kUd) {
        datagram_.on_packet(in.packet, in.grh);
        return;
    }
    if (has_other_port(in)) {
        context_.count_drop(&Counters::dropped_wrong_port);
        return;
    }
    const bool valid = take(in, now);
    if (valid) {
        context_.hear_peer();
    }
    peer_has_our_port_ = peer_has_our_port_ || (valid && in.source_port == wire::kRocePort);
    check_failures();
}

// Of the peer. True: it was expected.
bool QueuePair::take(const InPacket& in, const Moment& now) noexcept {
    if (type_ == QpType::kUc) {
        return unreliable_.on_packet(in.packet);
    }
    if (in.acknowledged_psn && sends_packets()) {
        requester_.on_acknowledged(*in.acknowledged_psn, now);
    }
    if (!in.packet.info().is_response()) {
        if (type_ == QpType::kXrcSend) {
            context_.count_drop(&Counters::dropped_wrong_peer);
            return false;
        }
        return responder_.on_request(in.packet, in.not_ready, in.through_memory);
    }
    if (!sends_packets() || type_ == QpType::kXrcReceive) {
        context_.count_drop(&Counters::dropped_wrong_state);
        return false;
    }
    return requester_.on_response(in.packet, now);
}

// A datagram has no peer of its own.
bool QueuePair::is_from_peer(const InPacket& in) const noexcept {
    const wire::Transport transport = in.packet.info().transport;
    const bool is_peers = in.source == context_.attr.remote && in.destination == context_.attr.local;
    switch (type_) {
    case QpType::kUd:
        return transport == wire::Transport::kUd;
    case QpType::kUc:
        return transport == wire::Transport::kUc && is_peers;
    case QpType::kRc:
        return transport == wire::Transport::kRc && is_peers;
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        return transport == wire::Transport::kXrc && is_peers;
    }
    return false;
}

bool QueuePair::has_other_port(const InPacket& in) noexcept {
    if (in.source_port == wire::kRocePort || in.source_port == 0) {
        return false;
    }
    peer_has_our_port_ =
        peer_has_our_port_ || (context_.neighbourhood != nullptr && context_.neighbourhood->knows(ends()));
    return peer_has_our_port_;
}

// A datagram for a peer without room takes another way.
void QueuePair::forget_room() noexcept {
    const bool may_go_there = context_.neighbourhood != nullptr && type_ != QpType::kUd && receives_packets();
    context_.seen_room = may_go_there ? std::nullopt : std::optional(Neighbourhood::Room::kNoWay);
}

bool QueuePair::transmit(OutPacket& out, const Moment& now) noexcept {
    if (state_ == QpState::kReset || state_ == QpState::kInit) {
        return false;
    }
    forget_room();
    const bool sent = transmit_something(out, now);
    if (sent) {
        ++context_.own_counters.packets_out;
    }
    check_failures();
    return sent;
}

// Answers first: the peer waits for them, its own requests can't be refused, and its program expects that
// what it sent is done when our program's reply to it comes.
bool QueuePair::transmit_something(OutPacket& out, const Moment& now) noexcept {
    return (may_go_first() && transmit_request(out, now)) || transmit_answer(out) ||
           (sends_packets() && transmit_request(out, now));
}

// A request goes before a plain acknowledgement if it takes that along; or alone, if the peer's program gets
// no completion of it and looks for it in its memory.
bool QueuePair::may_go_first() noexcept {
    if (!responder_.acknowledges_next() || !sends_packets()) {
        return false;
    }
    if (has_room() && requester_.leaves_through_memory()) {
        return true;
    }
    acknowledgement_waited_ = !acknowledgement_waited_ && requester_.is_next_one_sided();
    return acknowledgement_waited_;
}

bool QueuePair::transmit_reliable(OutPacket& out, const Moment& now) noexcept {
    if (!requester_.transmit(out, now)) {
        return false;
    }
    if (out.through_memory && has_room()) {
        out.acknowledged_psn = responder_.take_acknowledgement();
    }
    return true;
}

bool QueuePair::transmit_answer(OutPacket& out) noexcept {
    if (responder_.answers_through_memory() && context_.is_full()) {
        return false;
    }
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcReceive:
        return responder_.transmit(out);
    case QpType::kUc:
    case QpType::kUd:
    case QpType::kXrcSend:
        return false;
    }
    return false;
}

bool QueuePair::transmit_request(OutPacket& out, const Moment& now) noexcept {
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        return transmit_reliable(out, now);
    case QpType::kUc:
        return unreliable_.transmit(out, state_ == QpState::kReadyToSend, now);
    case QpType::kUd:
        return state_ == QpState::kReadyToSend && datagram_.transmit(out);
    }
    return false;
}

void QueuePair::peer_is_gone() noexcept {
    if (awaits_answers(type_) && sends_packets()) {
        requester_.peer_is_gone();
        check_failures();
    }
}

void QueuePair::advance(Nanoseconds now) noexcept {
    if (!sends_packets()) {
        return;
    }
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        requester_.on_deadline(now);
        check_failures();
        return;
    case QpType::kUc:
        unreliable_.on_deadline(now);
        return;
    case QpType::kUd:
        return; // waits for nobody
    }
}

Nanoseconds QueuePair::deadline() const noexcept {
    if (!sends_packets()) {
        return kNever;
    }
    switch (type_) {
    case QpType::kRc:
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
        return requester_.deadline();
    case QpType::kUc:
        return unreliable_.deadline();
    case QpType::kUd:
        return kNever;
    }
    return kNever;
}

void QueuePair::check_failures() noexcept {
    if ((datagram_.failed() || unreliable_.failed()) && sends_packets()) {
        enter(QpState::kSendError);
    }
    look_if_drained();
    if (state_ == QpState::kError) {
        return;
    }
    if (requester_.failure()) {
        enter_error(*requester_.failure());
    } else if (const std::optional<AsyncEvent> failure =
                   type_ == QpType::kUc ? unreliable_.failure() : responder_.failure()) {
        const AsyncEvent event = *failure;
        enter_error(Status::kFlushed);
        context_.events.event(event, context_.qpn);
    }
}

void QueuePair::enter_error(Status first_send) noexcept {
    enter(QpState::kError);
    withdraw();
    sends_.flush(first_send);
    datagram_.stop();
    unreliable_.stop_sending();
    responder_.flush();
    unreliable_.flush();
    if (has_srq_) {
        context_.events.event(AsyncEvent::kLastWqeReached, context_.qpn);
        return;
    }
    while (!own_receives_.empty()) {
        Receive flushed;
        own_receives_.take(flushed);
        context_.complete(context_.recv_cq,
                          {.wr_id = flushed.wr_id, .status = Status::kFlushed, .opcode = WcOpcode::kRecv});
    }
}

} // namespace sluice::roce::engine
