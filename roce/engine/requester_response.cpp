// SPDX-License-Identifier: BSD-3-Clause
//
// What answers and their absence do to the requester. The rules are in requester.hpp.
#include <bit>
#include <cstring>

#include "roce/engine/requester.hpp"
#include "roce/wire/syndrome.hpp"

namespace sluice::roce::engine {

using wire::Packet;
using wire::psn_add;
using wire::psn_distance;

namespace {

constexpr std::uint8_t kRetryForever = 7;

Status status_of(std::uint8_t nak_code) noexcept {
    switch (static_cast<wire::NakCode>(nak_code)) {
    case wire::NakCode::kRemoteAccess:
        return Status::kRemoteAccess;
    case wire::NakCode::kRemoteOperational:
        return Status::kRemoteOperation;
    default:
        return Status::kRemoteInvalidRequest;
    }
}

} // namespace

// It answers nothing that is open.
bool Requester::is_stray(std::uint32_t psn) noexcept {
    const bool is = failure_ || psn_distance(psn, una_psn_) < 0 || psn_distance(psn, sent_limit_) >= 0;
    context_.counters.stray_responses += is ? 1 : 0;
    return is;
}

void Requester::on_acknowledged(std::uint32_t psn, const Moment& now) noexcept {
    if (!is_stray(psn)) {
        on_acknowledge(psn, now);
    }
}

bool Requester::on_response(const Packet& packet, const Moment& now) noexcept {
    if (is_stray(packet.bth.psn)) {
        return false;
    }
    if (packet.info().operation != wire::Operation::kAcknowledge) {
        on_data(packet, now);
        return true;
    }
    switch (wire::ack_kind(packet.aeth.syndrome)) {
    case wire::AckKind::kAck:
        on_acknowledge(packet.bth.psn, now);
        return true;
    case wire::AckKind::kRnrNak:
        on_rnr(packet, now);
        return true;
    case wire::AckKind::kNak:
        on_nak(packet, now);
        return true;
    case wire::AckKind::kReserved:
        break;
    }
    ++context_.counters.stray_responses;
    return false;
}

void Requester::on_acknowledge(std::uint32_t psn, const Moment& now) noexcept {
    if (!advance(psn_add(psn, 1), now)) {
        retry();
    }
}

void Requester::on_nak(const Packet& packet, const Moment& now) noexcept {
    const std::uint8_t code = wire::ack_value(packet.aeth.syndrome);
    const bool reached = advance(packet.bth.psn, now);
    if (code == static_cast<std::uint8_t>(wire::NakCode::kSequence)) {
        retry();
    } else if (reached || ack_deadline_ == kNever) {
        fail(status_of(code));
    } else {
        refusal_ = refusal_.value_or(status_of(code));
        refused_psn_ = packet.bth.psn;
    }
}

void Requester::on_rnr(const Packet& packet, const Moment& now) noexcept {
    context_.count(&Counters::rnr_naks_in, &QpCounters::rnr_naks_in);
    if (!advance(packet.bth.psn, now)) {
        retry();
        return;
    }
    if (rnr_until_ != kNever) {
        return; // a copy of the one that we obey already
    }
    if (rnr_retries_left_ == 0) {
        fail(Status::kRnrRetryExceeded);
        return;
    }
    if (context_.attr.rnr_retry != kRetryForever) {
        --rnr_retries_left_;
    }
    rewind();
    silent_since_ = look_at_ = kNever;
    port_refusals_ = 0;
    looks_ = false;
    rnr_until_ = now + wire::rnr_timer_ns(wire::ack_value(packet.aeth.syndrome));
}

void Requester::on_data(const Packet& packet, const Moment& now) noexcept {
    const SendEntry* entry = first_unanswered();
    if (entry == nullptr) {
        ++context_.counters.stray_responses;
        return;
    }
    const std::uint32_t expected = expected_psn(*entry);
    const std::int32_t ahead = psn_distance(packet.bth.psn, expected);
    if (ahead < 0) {
        ++context_.counters.stray_responses;
        return;
    }
    advance(expected, now); // it answers everything before it, too
    if (ahead > 0) {
        retry();
    } else if (take_data(*entry, packet)) {
        progressed(psn_add(expected, 1), now);
    }
}

bool Requester::take_data(const SendEntry& entry, const Packet& packet) noexcept {
    const wire::Operation operation = packet.info().operation;
    const bool atomic = is_atomic(entry.wr.opcode);
    const bool fits =
        operation == (atomic ? wire::Operation::kAtomicAcknowledge : wire::Operation::kReadResponse);
    const bool is_ack =
        !packet.info().has(wire::kHasAeth) || wire::ack_kind(packet.aeth.syndrome) == wire::AckKind::kAck;
    if (!fits || !is_ack) {
        fail(Status::kBadResponse);
        return false;
    }
    return atomic ? take_original(entry, packet.atomic_ack.original) : take_read_data(entry, packet);
}

// The program sees a number of its own byte order. A page that is gone by now fails the queue pair.
bool Requester::take_original(const SendEntry& entry, std::uint64_t original) noexcept {
    const auto bytes = std::bit_cast<std::array<std::uint8_t, sizeof original>>(original);
    if (!context_.scatter(entry.wr.sges, 0, bytes)) {
        fail(Status::kLocalProtection);
        return false;
    }
    return true;
}

// Flush and atomic write are answered by an empty read response (A19.4), so this serves them too.
// A read that was asked for again in the middle begins with "first" there: only the end is fixed.
bool Requester::take_read_data(const SendEntry& entry, const Packet& packet) noexcept {
    const std::uint32_t mtu = context_.attr.path_mtu;
    const bool is_read = entry.wr.opcode == WrOpcode::kRead;
    const std::uint32_t index = static_cast<std::uint32_t>(psn_distance(packet.bth.psn, entry.first_psn));
    const bool last = index + 1 == entry.packets;
    const std::uint32_t len = is_read ? std::min(mtu, entry.len_bytes - index * mtu) : 0;
    if (packet.info().ends() != last || packet.payload.size() != len) {
        fail(Status::kBadResponse);
        return false;
    }
    if (!context_.scatter(entry.wr.sges, std::uint64_t{index} * mtu, packet.payload)) {
        fail(Status::kLocalProtection);
        return false;
    }
    return true;
}

void Requester::on_deadline(Nanoseconds now) noexcept {
    if (rnr_until_ <= now) {
        rnr_until_ = kNever;
    }
    if (look_at_ <= now) {
        look_at_port(now);
    }
    if (ack_deadline_ <= now) {
        context_.count(&Counters::timeouts, &QpCounters::timeouts);
        ack_deadline_ = kNever;
        rewound_ = false;
        if (refusal_) {
            fail(*refusal_);
        }
        if (retries_left_ == 0 && !failure_ && may_wait(now)) {
            waits_ = static_cast<std::uint8_t>(std::min(waits_ + 1, 63));
            rewound_ = true;
            rewind();
        } else {
            retry();
        }
    }
}

bool Requester::may_wait(Nanoseconds now) noexcept {
    switch (context_.events.silent_peer(context_.ends())) {
    case Peer::kGone:
        return false;
    case Peer::kAnswers:
        peer_answers();
        [[fallthrough]];
    case Peer::kLives:
        return vain_answers_ < kMostVainAnswers;
    case Peer::kUnknown:
        return now - silent_since_ < context_.min_silence;
    }
    return false;
}

// The repetition that the first refusal causes counts as none of the program's.
void Requester::look_at_port(Nanoseconds now) noexcept {
    const Port port = context_.events.look_at_port(context_.ends());
    look_at_ = port == Port::kNotAsked ? kNever : now + kBetweenLooks;
    looks_ = port != Port::kNotAsked;
    port_refusals_ = port == Port::kRefused ? static_cast<std::uint8_t>(port_refusals_ + 1) : std::uint8_t{0};
    if (port_refusals_ == kMostRefusals) {
        fail(Status::kRetryExceeded);
    } else if (looks_ && ack_deadline_ != kNever && pause() == kBetweenLooks) {
        ack_deadline_ = std::min(ack_deadline_, now); // behind the question, not before it
    } else if (port_refusals_ != 0 && ack_deadline_ > now) {
        rewound_ = true;
        rewind();
    }
}

// Until the request is repeated.
Nanoseconds Requester::pause() const noexcept {
    const Nanoseconds timeout = wire::ack_timeout_ns(context_.attr.timeout);
    const Nanoseconds pause = timeout >= kLongestPause || timeout > kLongestPause >> waits_
                                  ? std::max(timeout, kLongestPause)
                                  : timeout << waits_;
    return looks_ ? std::max(pause, kBetweenLooks) : pause;
}

void Requester::peer_is_gone() noexcept {
    peer_is_gone_ = true;
    if (queue_.head() != queue_.tail()) {
        fail(Status::kRetryExceeded);
    }
}

bool Requester::is_answered(const SendEntry& entry) const noexcept {
    return entry.is_local() ? entry.done
                            : psn_distance(una_psn_, psn_add(entry.first_psn, entry.packets)) >= 0;
}

SendEntry* Requester::first_unanswered() noexcept {
    for (std::uint32_t number = queue_.head(); data_due_ != 0 && number != fresh_; ++number) {
        SendEntry& entry = queue_.at(number);
        if (entry.needs_response() && !is_answered(entry)) {
            return &entry;
        }
    }
    return nullptr;
}

std::uint32_t Requester::expected_psn(const SendEntry& entry) const noexcept {
    return psn_distance(una_psn_, entry.first_psn) > 0 ? una_psn_ : entry.first_psn;
}

// Everything before TARGET is executed. False when a missing response stops us earlier.
bool Requester::advance(std::uint32_t target, const Moment& now) noexcept {
    const SendEntry* missing = first_unanswered();
    const bool stopped = missing != nullptr && psn_distance(target, expected_psn(*missing)) > 0;
    const std::uint32_t reached = stopped ? expected_psn(*missing) : target;
    if (psn_distance(reached, una_psn_) > 0) {
        progressed(reached, now);
    }
    return !stopped;
}

void Requester::progressed(std::uint32_t una_psn, const Moment& now) noexcept {
    una_psn_ = una_psn;
    retries_left_ = context_.attr.retry_count;
    rnr_retries_left_ = context_.attr.rnr_retry;
    rewound_ = false;
    retire_answered();
    catch_up();
    waits_ = 0;
    vain_answers_ = 0;
    port_refusals_ = 0;
    looks_ = false;
    ack_deadline_ = context_.attr.timeout == 0 || cursor_psn() == una_psn_ ? kNever : now + pause();
    silent_since_ = ack_deadline_ == kNever ? kNever : Nanoseconds{now};
    look_at_ = ack_deadline_ == kNever ? kNever : now + kFirstLook;
    if (refusal_ && ack_deadline_ == kNever) {
        fail(*refusal_); // nothing is on the way that could be awaited
    }
}

void Requester::retire_answered() noexcept {
    while (queue_.head() != fresh_) {
        SendEntry& entry = queue_.at(queue_.head());
        if (!is_answered(entry)) {
            break;
        }
        if (entry.in_flight) {
            entry.in_flight = false;
            --rd_in_flight_;
        }
        data_due_ -= entry.needs_response() ? 1 : 0;
        if (cursor_ == queue_.head()) {
            ++cursor_;
            cursor_packet_ = 0;
        }
        queue_.retire(Status::kSuccess);
    }
    if (local_error_ && cursor_ == queue_.head()) {
        fail(*local_error_);
    }
    if (refusal_ && psn_distance(una_psn_, refused_psn_) >= 0) {
        fail(*refusal_);
    }
}

// After a rewind an answer may come that makes sending again unnecessary.
void Requester::catch_up() noexcept {
    while (cursor_ != fresh_ && psn_distance(una_psn_, cursor_psn()) > 0) {
        const SendEntry& entry = queue_.at(cursor_);
        if (is_answered(entry)) {
            ++cursor_;
            cursor_packet_ = 0;
        } else {
            cursor_packet_ = static_cast<std::uint32_t>(psn_distance(una_psn_, entry.first_psn));
        }
    }
}

void Requester::retry() noexcept {
    if (rewound_ || failure_ || refusal_) {
        return;
    }
    if (retries_left_ == 0) {
        fail(Status::kRetryExceeded);
        return;
    }
    --retries_left_;
    rewound_ = true;
    rewind();
}

void Requester::rewind() noexcept {
    ++context_.counters.rewinds;
    ack_deadline_ = kNever;
    local_error_.reset(); // will be found again
    cursor_ = queue_.head();
    cursor_packet_ = 0;
    since_ack_request_ = 0;
    for (std::uint32_t number = cursor_; number != fresh_; ++number) {
        SendEntry& entry = queue_.at(number);
        if (entry.in_flight) {
            entry.in_flight = false;
            --rd_in_flight_;
        }
    }
    catch_up();
}

} // namespace sluice::roce::engine
