// SPDX-License-Identifier: BSD-3-Clause
//
// The asking half of a reliable connection (IBTA vol 1, 9.7.2 to 9.7.7): turns send work requests
// into request packets, and responses into completions.
//
// Sequence numbers. Each request takes its numbers when it is first reached: `packets` of them from
// first_psn on; a read takes as many as its response has packets. `una_psn_` is the oldest number
// that nothing has answered: everything before is done. `cursor_` is the request, and
// `cursor_packet_` the packet in it, that will be sent next; after a loss it is simply put back to
// una_psn_ (go back N), and everything is sent again from there, byte for byte. A read that was half
// answered asks for the rest. `sent_limit_` is one past the highest number ever sent: an answer to
// what wasn't sent is no answer.
//
// An acknowledgement says that everything up to its number was executed, but not that the responses
// of reads and atomics before it have arrived: una_psn_ stops at the first of those that is missing,
// and since a later answer came, it must be lost: an "implied NAK" (9.7.6). A response that comes
// out of order implies the same. One such event rewinds once; others until the next progress or
// timeout are echoes of the same loss.
//
// A request that fails on this side (a key that doesn't fit) waits until everything before it is
// done, so that completions keep their order, and then fails the queue pair. If a fatal NAK finds
// reads before it unanswered, their responses may still be on the way: nothing more is sent, and for
// one ack timeout they are awaited. The peer is in error and won't answer again, so that after it
// the oldest of them takes the status.
//
// Silence. A peer that doesn't answer may be lost, or starved of its processor, or stopped by a debugger.
// When the retries that the program allows are used up, what is known of the peer decides (EventSink): one
// that lives is waited for, one that answers for other things and not here is lost in the end, and one of
// which nothing is known is lost when it has been silent for QpContext::min_silence. Meanwhile the request is
// repeated more and more seldom. A peer whose port nobody has is lost sooner: each second of silence the
// driver looks whether that is so, and at the second time in a row, with the request repeated in between and
// not answered, the request fails. Neither the hint nor the silence suffices alone.
//
// Neighbours. A request before which nothing is unanswered may be executed by this process itself, on the
// memory of a peer on the same host: everything before it has happened, and what comes later waits for it, so
// that it needs no sequence number. Once a request has left as a packet, it stays one. A Write or Read behind
// others that have left so waits until they are answered: otherwise a stream that began before the peer was
// known would be packets for ever. Behind a Send it leaves as a packet, since its peer may be waiting for
// both.
#pragma once

#include <optional>

#include "roce/engine/send_queue.hpp"
#include "roce/wire/psn.hpp"

namespace sluice::roce::engine {

class Requester {
  public:
    Requester(QpContext& context, SendQueue& queue) : context_(context), queue_(queue) {}

    // The queue pair has become ready to send, with these attributes.
    void start() noexcept;

    // The next request packet, if there is one to be sent now.
    bool transmit(OutPacket& out, const Moment& now) noexcept;
    // True: it answers something that is open.
    bool on_response(const wire::Packet& packet, const Moment& now) noexcept;
    // What came with a request of the peer's.
    void on_acknowledged(std::uint32_t psn, const Moment& now) noexcept;
    // Whether transmit() may have something to do.
    bool has_more() const noexcept { return cursor_ != end() || peer_is_gone_; }
    // Whether the next packet would, given that there is such a way.
    bool leaves_through_memory() const noexcept { return cursor_ == fresh_ || through_memory_; }
    bool is_next_one_sided() noexcept { return cursor_ != end() && queue_.at(cursor_).is_one_sided(); }
    void on_deadline(Nanoseconds now) noexcept;
    void peer_is_gone() noexcept;
    bool has_lost_peer() const noexcept { return peer_is_gone_; }
    void peer_answers() noexcept { ++vain_answers_; }
    // When on_deadline() wants to be called; kNever when nothing is awaited.
    Nanoseconds deadline() const noexcept { return std::min({ack_deadline_, rnr_until_, look_at_}); }

    // While held, nothing is begun that wasn't begun before.
    void hold() noexcept {
        held_ = true;
        hold_at_ = fresh_;
    }
    void go_on() noexcept { held_ = false; }
    bool drained() const noexcept { return queue_.head() == hold_at_; }

    // Why the queue pair must enter the error state; the oldest request ends with it.
    std::optional<Status> failure() const noexcept { return failure_; }

  private:
    // As rxe: at most so many unanswered, and an answer asked for at least at every half of it.
    static constexpr std::int32_t kWindowPsns = 128;
    static constexpr std::uint32_t kPacketsPerAckRequest = 64;
    // Between two repetitions beyond those that the program wants, unless its own timeout is longer.
    static constexpr Nanoseconds kLongestPause = 500'000'000;
    // A peer that has said so often that it has the connection, and answers no request, never will.
    static constexpr std::uint32_t kMostVainAnswers = 8;
    // Between two looks whether a silent peer's port is there, and how many times in a row it isn't. A kernel
    // says once a second that a port is closed: by the first packet, so that one must ask for it before
    // requests are repeated, and those no more often than that.
    static constexpr Nanoseconds kBetweenLooks = 1'100'000'000;
    static constexpr Nanoseconds kFirstLook = 500'000'000;
    static constexpr std::uint8_t kMostRefusals = 2;

    void assign_numbers(SendEntry& entry) noexcept;
    bool run_local(SendEntry& entry) noexcept;
    bool is_first_in_line() const noexcept;
    bool has_direct_way() const noexcept;
    bool may_run_direct(const SendEntry& entry) const noexcept;
    bool run_direct(SendEntry& entry) noexcept;
    bool will_be_direct(const SendEntry& entry) noexcept;
    bool chooses_way() noexcept;
    bool take_original(const SendEntry& entry, std::uint64_t original) noexcept;
    bool may_start(const SendEntry& entry) const noexcept;
    bool emit(SendEntry& entry, OutPacket& out) noexcept;
    void emit_headers(const SendEntry& entry, wire::Packet& packet) const noexcept;
    bool emit_payload(const SendEntry& entry, OutPacket& out) noexcept;
    void moved_on(SendEntry& entry, std::uint32_t numbers, const Moment& now) noexcept;
    void await_answer(const Moment& now) noexcept;

    bool is_stray(std::uint32_t psn) noexcept;
    void on_acknowledge(std::uint32_t psn, const Moment& now) noexcept;
    void on_nak(const wire::Packet& packet, const Moment& now) noexcept;
    void on_rnr(const wire::Packet& packet, const Moment& now) noexcept;
    void on_data(const wire::Packet& packet, const Moment& now) noexcept;
    bool take_data(const SendEntry& entry, const wire::Packet& packet) noexcept;
    bool take_read_data(const SendEntry& entry, const wire::Packet& packet) noexcept;

    bool advance(std::uint32_t target, const Moment& now) noexcept;
    void progressed(std::uint32_t una_psn, const Moment& now) noexcept;
    void retire_answered() noexcept;
    void catch_up() noexcept;
    void retry() noexcept;
    bool may_wait(Nanoseconds now) noexcept;
    void look_at_port(Nanoseconds now) noexcept;
    Nanoseconds pause() const noexcept;
    void rewind() noexcept;
    void fail(Status status) noexcept { failure_ = failure_.value_or(status); }

    std::uint32_t cursor_psn() noexcept;
    std::uint32_t end() const noexcept { return held_ ? hold_at_ : queue_.tail(); }
    // The oldest request that gets data back, sent or not, and isn't fully answered.
    SendEntry* first_unanswered() noexcept;
    std::uint32_t expected_psn(const SendEntry& entry) const noexcept;
    bool is_answered(const SendEntry& entry) const noexcept;

    QpContext& context_;
    SendQueue& queue_;
    std::uint32_t cursor_ = 0;
    std::uint32_t cursor_packet_ = 0;
    std::uint32_t fresh_ = 0; // first request without numbers
    // Behind the last request that has left as packets and is no Write or Read.
    std::uint32_t behind_messages_ = 0;
    bool through_memory_ = false; // go the packets that have left
    bool direct_failed_ = false;  // the last Write or Read for a peer that is reached
    std::uint32_t una_psn_ = 0;
    std::uint32_t next_psn_ = 0; // for the next fresh request
    std::uint32_t sent_limit_ = 0;
    std::uint32_t since_ack_request_ = 0;
    std::uint32_t rd_in_flight_ = 0;
    std::uint32_t data_due_ = 0; // requests with numbers that get data back
    std::uint8_t retries_left_ = 0;
    std::uint8_t rnr_retries_left_ = 0;
    bool held_ = false;
    std::uint32_t hold_at_ = 0; // the first request that isn't begun
    bool rewound_ = false;      // since the last progress or timeout
    Nanoseconds ack_deadline_ = kNever;
    Nanoseconds silent_since_ = kNever;
    Nanoseconds look_at_ = kNever;
    bool looks_ = false; // at the peer's port, since the last progress
    std::uint8_t port_refusals_ = 0;
    std::uint8_t waits_ = 0; // repetitions beyond the program's, since the last progress
    std::uint32_t vain_answers_ = 0;
    bool peer_is_gone_ = false;
    Nanoseconds rnr_until_ = kNever;
    std::optional<Status> local_error_; // of the request at the cursor
    std::optional<Status> refusal_;     // of the request at refused_psn_, once all before is answered
    std::uint32_t refused_psn_ = 0;
    std::optional<Status> failure_;
};

} // namespace sluice::roce::engine
