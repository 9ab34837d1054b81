// SPDX-License-Identifier: BSD-3-Clause
//
// The answering half of a reliable connection (IBTA vol 1, 9.7.4 and 9.7.5): executes request
// packets in the order of their numbers, each once, and queues what there is to answer.
//
// A packet with the expected number is checked completely before anything is touched: its place in
// the message, its length, whether the queue pair offers the operation, then key and range. What
// fails any check gets the NAK of its kind and puts the queue pair into error. One that is ahead
// tells of a loss: one NAK, then silence until the gap closes. One that is behind is a copy: sends
// and writes are acknowledged again, reads executed again (their memory may be read as often as one
// likes), atomics, atomic writes and flushes answered with what was remembered of them. So much is
// remembered as the peer may have outstanding, max_dest_rd_atomic.
//
// Answers leave in the order of their requests, from a ring of fixed size; positive acknowledgements
// that haven't left yet merge into one. A request for whose answer there is no room is dropped,
// as if the network had lost it: a flood costs nothing but its sender's time.
//
// A read is executed as it is sent, packet by packet, and checked again each time: memory may be
// deregistered between.
#pragma once

#include <optional>
#include <vector>

#include "roce/engine/context.hpp"
#include "roce/engine/receive_queue.hpp"
#include "roce/engine/xrc_domain.hpp"
#include "roce/wire/psn.hpp"
#include "roce/wire/syndrome.hpp"

namespace sluice::roce::engine {

class Responder {
  public:
    // With DOMAIN, each request says which of its queues it is for, and RECEIVES is unused.
    Responder(QpContext& context, ReceiveQueue& receives, XrcDomain* domain)
        : context_(context), own_{.pd = context.pd, .receives = &receives, .cq = &context.recv_cq},
          domain_(domain) {}

    // The queue pair has become ready to receive, with these attributes. Allocates.
    void start();
    // True: it was the next one, and is executed.
    bool on_request(const wire::Packet& packet, bool not_ready = false, bool through_memory = false) noexcept;
    bool answers_through_memory() const noexcept { return through_memory_; }
    // The next answer, if there is one. Goes on in the error state until all are out.
    bool transmit(OutPacket& out) noexcept;

    // Of a queue of the domain: no more comes of what is received there.
    bool lost_completion() const noexcept { return lost_completion_; }
    bool has_answers() const noexcept { return !replies_.empty(); }
    // Whether the next answer says no more than that something has come.
    bool acknowledges_next() const noexcept {
        return !replies_.empty() && replies_.front().answer == Answer::kAck;
    }
    // All that is executed by now.
    void acknowledge() noexcept;
    // What goes with a request through memory: the acknowledgement that is next, or one that has left on the
    // other way, which the request would overtake.
    std::optional<std::uint32_t> take_acknowledgement() noexcept;
    bool owes_acknowledgements_alone() const noexcept { return replies_.size() == 1 && acknowledges_next(); }

    // What happened to the peer's request that must put the queue pair into error.
    std::optional<AsyncEvent> failure() const noexcept { return failure_; }
    // Ends the receive that a message was filling, if there is one.
    void flush() noexcept;
    void stop() noexcept { replies_.clear(); }

  private:
    enum class Message : std::uint8_t { kNone, kSend, kWrite };
    enum class Verdict : std::uint8_t { kDone, kNotReady, kInvalid, kNoQueue, kAccess, kOperational };
    enum class Silence : std::uint8_t { kNone, kToldOfGap, kToldNotReady };
    enum class Answer : std::uint8_t { kAck, kNak, kRead, kAtomic, kEmptyRead };

    struct Reply {
        Answer answer = Answer::kAck;
        std::uint8_t syndrome = 0;
        bool again = false; // for a copy of the request
        bool began = false; // a read whose first packet has left
        std::uint32_t psn = 0;
        std::uint32_t msn = 0;
        std::uint32_t pd = 0; // of a read, as the rest
        std::uint32_t rkey = 0;
        std::uint32_t len_bytes = 0; // what is left
        std::uint64_t addr = 0;
        std::uint64_t value = 0;
    };
    // A read, atomic, atomic write or flush that may be asked for again.
    struct Remembered {
        wire::Operation operation = wire::Operation::kNone;
        std::uint32_t psn = 0;
        std::uint32_t packets = 0;
        std::uint32_t msn = 0;
        std::uint32_t pd = 0;
        std::uint32_t rkey = 0;
        std::uint32_t len_bytes = 0;
        std::uint64_t addr = 0;
        std::uint64_t value = 0;
    };

    Verdict execute(const wire::Packet& packet) noexcept;
    bool find_queue(const wire::Packet& packet) noexcept;
    bool place_fits(const wire::OpcodeInfo& info) const noexcept;
    bool length_fits(const wire::Packet& packet) const noexcept;
    bool offers(const wire::Packet& packet) const noexcept;
    Verdict send(const wire::Packet& packet) noexcept;
    Verdict write(const wire::Packet& packet) noexcept;
    Verdict read(const wire::Packet& packet) noexcept;
    Verdict atomic(const wire::Packet& packet) noexcept;
    Verdict atomic_write(const wire::Packet& packet) noexcept;
    Verdict flush_memory(const wire::Packet& packet) noexcept;
    Verdict fail_receive(Status status, Verdict verdict) noexcept;
    void complete(Completion completion) noexcept;
    void finish_receive(const wire::Packet& packet, WcOpcode opcode, std::uint32_t len_bytes) noexcept;
    bool take_receive() noexcept;

    void on_duplicate(const wire::Packet& packet) noexcept;
    const Remembered* recall(const wire::Packet& packet) const noexcept;
    void remember(const wire::Packet& packet, std::uint32_t packets, std::uint64_t value) noexcept;
    bool too_many() const noexcept;

    void refuse(Verdict verdict) noexcept;
    void queue_nak(std::uint8_t syndrome) noexcept;
    Reply& queue(Answer answer, std::uint32_t psn, std::uint32_t msn) noexcept;
    bool emit_read(Reply& reply, OutPacket& out) noexcept;
    void fail_read(Reply& reply, wire::NakCode code) noexcept;
    static std::uint8_t opcode_of(Answer answer) noexcept;
    void emit(std::uint8_t opcode, const Reply& reply, OutPacket& out) noexcept;

    QpContext& context_;
    // Came the last request. Answers go the same way: the peer changes it only when all are answered.
    bool through_memory_ = false;
    SharedReceives own_;
    XrcDomain* const domain_;
    // While a request is executed: own_, or the domain's that it is for.
    SharedReceives* target_ = &own_;
    std::uint32_t srqn_ = 0; // of the last request, over XRC
    bool lost_completion_ = false;
    std::uint32_t expected_psn_ = 0;
    std::uint32_t msn_ = 0;
    // The last packet of a send or write that was executed, and how many messages were then.
    std::uint32_t acknowledged_psn_ = 0;
    std::uint32_t acknowledged_msn_ = 0;
    std::optional<std::uint32_t> acknowledged_by_packet_{}; // the last, until it goes through memory, too
    Silence silence_ = Silence::kNone;
    Message message_ = Message::kNone;
    bool receiving_ = false; // receive_ is in use
    Receive receive_;
    std::uint32_t received_bytes_ = 0; // of this send
    std::uint32_t write_rkey_ = 0;
    std::uint32_t write_bytes_ = 0; // of this write, what it announced
    std::uint32_t write_left_ = 0;
    std::uint64_t write_addr_ = 0;
    Ring<Reply> replies_{1};
    std::vector<Remembered> remembered_; // a ring over max_dest_rd_atomic
    std::uint64_t operations_ = 0;       // remembered so far
    std::uint64_t answered_ = 0;         // of those, completely
    std::optional<AsyncEvent> failure_;
};

} // namespace sluice::roce::engine
