// SPDX-License-Identifier: BSD-3-Clause
//
// Both halves of an unreliable connection (IBTA vol 1, 9.8.2): sends and writes of any length to one peer,
// without answers.
//
// A request is complete when its last packet has left, which settle() tells. Only so many packets leave
// between two calls of settle(): nobody but a full socket slows this side down, and what a full socket
// doesn't take is lost.
//
// The receiver keeps a message only as long as its packets come one after another. A packet that is missing,
// an end that never comes, a length, key or range that doesn't fit, or a receive that isn't there: the rest
// of the message is dropped, and nobody is told. The next message that starts, with whatever number, is taken
// again. A receive that a broken message was filling serves the next one.
//
// An error of this side's own is reported: a send whose data can't be read puts the queue pair into the
// send error state, and a receive that can't be filled puts it into the error state.
#pragma once

#include <optional>

#include "roce/engine/receive_queue.hpp"
#include "roce/engine/send_queue.hpp"
#include "roce/wire/psn.hpp"

namespace sluice::roce::engine {

class UnreliableConnection {
  public:
    UnreliableConnection(QpContext& context, SendQueue& sends, ReceiveQueue& receives)
        : context_(context), sends_(sends), receives_(receives) {}

    // The queue pair has become ready to send, and to receive.
    void start_sending() noexcept;
    void start_receiving() noexcept;
    // The send queue was emptied.
    void stop_sending() noexcept {
        given_out_ = packet_ = burst_ = 0;
        no_room_until_ = kNever;
    }
    // The receives were, too.
    void stop_receiving() noexcept;

    // The next packet; without MAY_BEGIN, only of a request that was begun.
    bool transmit(OutPacket& out, bool may_begin, const Moment& now) noexcept;
    // When on_deadline() wants to be called.
    Nanoseconds deadline() const noexcept { return no_room_until_; }
    void on_deadline(Nanoseconds now) noexcept;
    // All packets that were given out have left.
    void settle() noexcept;
    bool unsettled() const noexcept { return burst_ != 0; }
    // No request is begun that hasn't ended.
    bool drained() const noexcept { return packet_ == 0 && given_out_ == 0; }
    // A failed send puts the queue pair into the send error state.
    bool failed() const noexcept { return failed_; }
    void clear_failure() noexcept { failed_ = false; }

    // True: it was taken.
    bool on_packet(const wire::Packet& packet) noexcept;
    // What happened here that must put the queue pair into error.
    std::optional<AsyncEvent> failure() const noexcept { return failure_; }
    // Ends the receive that a message was filling, if there is one.
    void flush() noexcept;

  private:
    // A quarter of a socket's batch at the largest MTU.
    static constexpr std::uint32_t kBurstPackets = 16;
    // A peer that makes no room for so long is stopped. Its packets take another way, and may be lost there.
    static constexpr Nanoseconds kPatience = 1'000'000'000;

    enum class Message : std::uint8_t { kNone, kSend, kWrite };

    void choose_way() noexcept;
    bool has_room(const Moment& now) noexcept;
    bool run_local(const SendEntry& entry) noexcept;
    void emit(const SendEntry& entry, wire::Packet& packet) const noexcept;
    bool fail(Status status) noexcept;

    bool continues(const wire::OpcodeInfo& info) const noexcept;
    bool take(const wire::Packet& packet) noexcept;
    bool send(const wire::Packet& packet) noexcept;
    bool write(const wire::Packet& packet) noexcept;
    bool take_receive() noexcept;
    void finish_receive(const wire::Packet& packet, WcOpcode opcode, std::uint32_t len_bytes) noexcept;

    QpContext& context_;
    SendQueue& sends_;
    ReceiveQueue& receives_;

    std::uint32_t given_out_ = 0; // requests that have no more packets, and haven't ended
    std::uint32_t packet_ = 0;    // of the request behind them, the next one
    std::uint32_t next_psn_ = 0;
    std::uint32_t burst_ = 0; // packets given out since settle()
    bool failed_ = false;
    bool began_ = false; // something has left
    bool through_memory_ = false;
    Nanoseconds no_room_until_ = kNever;
    bool gives_up_room_ = false; // until there is some

    std::uint32_t expected_psn_ = 0;
    Message message_ = Message::kNone;
    bool receiving_ = false; // receive_ is in use
    Receive receive_;
    std::uint32_t received_bytes_ = 0; // of this send
    std::uint32_t write_rkey_ = 0;
    std::uint32_t write_bytes_ = 0; // of this write, what it announced
    std::uint32_t write_left_ = 0;
    std::uint64_t write_addr_ = 0;
    std::optional<AsyncEvent> failure_;
};

} // namespace sluice::roce::engine
