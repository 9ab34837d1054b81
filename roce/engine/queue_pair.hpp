// SPDX-License-Identifier: BSD-3-Clause
//
// A queue pair: its states (IBTA vol 1, 10.3.1) and the parts that work in them. Made and destroyed
// by the Engine; not thread safe, and neither are the parts.
//
// A peer's address is easily forged, its port 4791 rarely: that takes a raw socket, or the end of the peer's.
// uroce sends everything from port 4791; so once a peer has sent something valid from there, or is known as a
// process of this host, nothing is taken from its other ports. rxe and adapters choose a port above 49151 for
// each queue pair, and some vary it, which means nothing.
//
// Drained means: no request is begun any more; those that were begun end as usual, and then there is
// an event if one was asked for.
//
// Error is entered by modify(), by a request of ours that fails, or by one of the peer's that may
// not be answered otherwise. Then, in this order: the request that failed completes with its status,
// or the receive that a message was filling; all other sends and receives are flushed, oldest
// first; and what is posted later is flushed at once. Receives of an SRQ stay there. Answers that
// were queued before, the refusal among them, still leave.
#pragma once

#include "roce/engine/datagram.hpp"
#include "roce/engine/in_packet.hpp"
#include "roce/engine/requester.hpp"
#include "roce/engine/responder.hpp"
#include "roce/engine/unreliable_connection.hpp"

namespace sluice::roce::engine {

struct QpConfig {
    QpType type = QpType::kRc;
    std::uint32_t pd = 0;
    CompletionQueue* send_cq =
        nullptr; // both outlive the queue pair; of XRC's sender and receiver, unused ones
    CompletionQueue* recv_cq = nullptr;
    ReceiveQueue* srq = nullptr;     // instead of a receive queue of its own
    XrcDomain* xrc_domain = nullptr; // of XRC's receiver, and of no other; outlives it
    std::uint32_t max_send_wr = 1;
    std::uint32_t max_recv_wr = 1;
    std::uint32_t max_send_sge = 1; // both at most kMaxSge
    std::uint32_t max_recv_sge = 1;
    std::uint32_t max_inline = 0;
    bool signal_all = false;
    Nanoseconds min_silence = 0;
    bool blocks_own_multicast = false; // of UD: what it sends to a group that it hears doesn't come back
    void* owner = nullptr;             // the caller's own
    QueuePairRows* rows = nullptr;     // outlives it. Null: nobody sees what it counts
};

class QueuePair {
  public:
    // SEAT is where NEIGHBOURHOOD, which may be null, publishes its connection.
    QueuePair(const QpConfig& config, std::uint32_t qpn, RegionTable& regions, Memory& memory,
              EventSink& events, Counters& counters, Neighbourhood* neighbourhood = nullptr,
              std::uint32_t seat = 0);
    QueuePair(const QueuePair&) = delete;
    QueuePair& operator=(const QueuePair&) = delete;
    ~QueuePair();

    std::uint32_t qpn() const noexcept { return context_.qpn; }
    QpState state() const noexcept { return state_; }
    QpType type() const noexcept { return type_; }
    void* owner() const noexcept { return owner_; }
    void set_owner(void* owner) noexcept { owner_ = owner; }
    const QpAttributes& attributes() const noexcept { return context_.attr; }
    Ends ends() const noexcept { return context_.ends(); }
    // The counters outlive the queue pair.
    OperationCounters& operation_counters() noexcept { return context_.operation_counters; }

    // Fails without any change when the transition isn't one of the standard's, or an attribute
    // that it needs makes no sense. Which attributes a call may name is the face's business.
    Result<void> modify(QpState to, const QpAttributes& attributes);

    // Whether begun requests are still to end, in kSendDrained.
    bool draining() const noexcept { return state_ == QpState::kSendDrained && !is_drained(); }

    // For requests that are built in place; they count once they are published.
    SendQueue& sends() noexcept { return sends_; }
    // kInvalid in the wrong state, with nothing published.
    Post publish_sends(std::uint32_t count) noexcept;

    // Both are kInvalid in the wrong state.
    Post post_send(const SendWr& wr) noexcept;
    Post post_receive(const RecvWr& wr) noexcept; // kInvalid with an SRQ

    void receive(const InPacket& in, const Moment& now) noexcept;
    // Whether this queue pair sent the packet, and doesn't want to hear itself.
    bool is_own_multicast(const InPacket& in) const noexcept {
        return blocks_own_multicast_ && in.packet.deth.src_qpn == context_.qpn &&
               in.source == context_.attr.local;
    }
    bool transmit(OutPacket& out, const Moment& now) noexcept;
    // Whether transmit() has given nothing because its peer has no room.
    bool lacks_room() const noexcept { return context_.seen_room == Neighbourhood::Room::kFull; }
    // Whether transmit() would give nothing: cheap, and only for those that are asked often; of others,
    // false.
    bool has_nothing_to_send() const noexcept {
        return is_reliable(type_) && !responder_.has_answers() && !requester_.has_more();
    }
    // Whether transmit() would give plain acknowledgements, and nothing that a program waits for.
    bool owes_acknowledgements_alone() const noexcept {
        return is_reliable(type_) && responder_.owes_acknowledgements_alone() && !requester_.has_more();
    }
    void acknowledge_again() noexcept { responder_.acknowledge(); }
    void settle() noexcept;
    bool unsettled() const noexcept { return datagram_.unsettled() || unreliable_.unsettled(); }
    bool has_failed_queue() const noexcept {
        return context_.send_cq.overflowed() || context_.recv_cq.overflowed() || responder_.lost_completion();
    }
    // Whether it takes packets from queue pair PEER_QPN of REMOTE.
    bool is_connected_to(const Address& remote, std::uint32_t peer_qpn) const noexcept {
        return type_ != QpType::kUd && receives_packets() && context_.attr.remote == remote &&
               context_.attr.dest_qpn == peer_qpn;
    }
    // Whether peer_is_gone() has an effect, and the peer was there.
    bool may_lose_peer() const noexcept {
        return awaits_answers(type_) && sends_packets() && context_.is_peer_heard &&
               !requester_.has_lost_peer();
    }
    // What is begun is never answered, nor what will be.
    void peer_is_gone() noexcept;
    void peer_answers() noexcept { requester_.peer_answers(); }
    void advance(Nanoseconds now) noexcept;
    Nanoseconds deadline() const noexcept;

  private:
    bool is_drained() const noexcept;
    bool carries(WrOpcode opcode) const noexcept;
    bool is_from_peer(const InPacket& in) const noexcept;
    bool has_other_port(const InPacket& in) noexcept;
    void forget_room() noexcept;
    bool has_room() noexcept { return context_.room() == Neighbourhood::Room::kFree; }
    bool transmit_something(OutPacket& out, const Moment& now) noexcept;
    bool may_go_first() noexcept;
    bool transmit_reliable(OutPacket& out, const Moment& now) noexcept;
    bool transmit_answer(OutPacket& out) noexcept;
    bool transmit_request(OutPacket& out, const Moment& now) noexcept;
    bool transition_is_legal(QpState to) const noexcept;
    Result<void> check(QpState to, const QpAttributes& attributes) const;
    void reset() noexcept;
    void check_failures() noexcept;
    void enter_error(Status first_send) noexcept;
    bool receives_packets() const noexcept;
    bool sends_packets() const noexcept {
        return state_ == QpState::kReadyToSend || state_ == QpState::kSendDrained;
    }
    bool takes_sends() const noexcept {
        return sends_packets() || state_ == QpState::kSendError || state_ == QpState::kError;
    }
    void look_if_drained() noexcept;
    void publish() noexcept;
    void withdraw() noexcept;
    void enter(QpState state) noexcept;
    void show_peer() noexcept;
    bool take(const InPacket& in, const Moment& now) noexcept;

    QueuePairRows* const rows_;
    QueuePairRow own_row_; // if it gets none
    QueuePairRow& row_;
    QpContext context_;
    const std::uint32_t seat_;
    bool is_published_ = false;
    void* owner_;
    QpType type_;
    QpState state_ = QpState::kReset;
    bool has_srq_;
    bool takes_receives_; // of its own
    bool blocks_own_multicast_;
    ReceiveQueue own_receives_;
    ReceiveQueue& receives_; // own or shared
    bool drained_told_ = false;
    // The peer is a device like us: all that it sends comes from port 4791.
    bool peer_has_our_port_ = false;
    // A request has gone before the acknowledgement that is next.
    bool acknowledgement_waited_ = false;
    SendQueue sends_;
    Requester requester_;
    Responder responder_;
    Datagram datagram_;
    UnreliableConnection unreliable_;
};

} // namespace sluice::roce::engine
