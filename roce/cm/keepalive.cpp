// SPDX-License-Identifier: BSD-3-Clause
//
// Whether the peer of an established connection still has it. A kernel says goodbye for a process that was
// killed; for a process with a device of its own nobody does. So its peer asks, every few seconds: by LAP, a
// request to load another path, to which a peer of our kind always answers, and which changes nothing. The
// answer says whether it has the connection. A kernel doesn't answer on RoCE: it is asked ten times more
// rarely.
//
// Without an answer the driver looks where the peer is. On this machine, its process lives, and the
// connection stays, however long it is stopped. Elsewhere, a port that nobody has, seen twice, ends the
// connection, and so does a silence of half a minute of a peer that used to answer. One message ends nothing:
// each of these can be forged.
//
// A peer that is gone doesn't answer the DREQ of a program that ends the connection either, for instance
// because its Sends to that peer have failed. So it is looked for in the same way, and the DREQ isn't
// repeated for minutes.
#include <algorithm>

#include "roce/cm/lifecycle.hpp"

namespace sluice::roce::cm {

namespace {

// The first question may be lost; the driver may look at a port once in this time.
constexpr engine::Nanoseconds kFirstAnswer = 300'000'000;
constexpr engine::Nanoseconds kAnswer = 1'100'000'000;
constexpr std::uint8_t kMostQuestions = 4; // to a peer that may be a kernel
constexpr int kRareness = 10;
constexpr std::uint8_t kEnoughRefusals = 2;
constexpr std::uint8_t kEnoughDenials = 3;
constexpr engine::Nanoseconds kMostSilence = 30'000'000'000;

bool is_watched(const Connection& c) noexcept {
    return c.state == State::kEstablished && !c.asked;
}

bool is_to_be_seen(const Connection& c) noexcept {
    return (is_watched(c) || c.state == State::kDreqSent) && c.vigil.questions != 0;
}

} // namespace

void Lifecycle::keep_alive(Connection& c, engine::Nanoseconds now) noexcept {
    c.copies_left = 0;
    if (config_.keepalive == 0 || engine::is_loopback(c.peer)) {
        connections_.set_deadline(c, engine::kNever);
        return;
    }
    c.vigil.questions = c.vigil.refusals = 0;
    connections_.set_deadline(c, now + config_.keepalive);
}

void Lifecycle::ask_for_life(Connection& c, engine::Nanoseconds now) noexcept {
    Vigil& vigil = c.vigil;
    if (vigil.questions > 0) {
        report_silence(c);
    }
    if (!vigil.in_doubt && !vigil.answers && vigil.refusals == 0 && vigil.questions == kMostQuestions) {
        vigil.questions = 0;
        connections_.set_deadline(c, now + kRareness * config_.keepalive);
        return;
    }
    vigil.tid = vigil.questions == 0 ? random_.transaction_id() : vigil.tid;
    vigil.questions = static_cast<std::uint8_t>(std::min(vigil.questions + 1, 255));
    push(c, make_lap(c, vigil.tid));
    connections_.set_deadline(c, now + (vigil.questions == 1 ? kFirstAnswer : kAnswer));
}

// The driver looks where the peer is.
void Lifecycle::report_silence(const Connection& c) noexcept {
    if (!doubtful_.full()) {
        doubtful_.grow() = static_cast<ConnectionId>(c.comm_id);
    }
}

void Lifecycle::begin_to_look(Connection& c, engine::Nanoseconds now) noexcept {
    c.vigil.questions = c.vigil.refusals = c.vigil.denials = c.vigil.denied_at = 0;
    c.look_at = now + std::min(kFirstAnswer, c.answer_time() / 2);
}

// A DREQ has left.
void Lifecycle::await_end(Connection& c, engine::Nanoseconds now) noexcept {
    c.repeat_at = now + c.answer_time();
    connections_.set_deadline(c, std::min(c.look_at, c.repeat_at));
}

void Lifecycle::look_for_peer(Connection& c, engine::Nanoseconds now) noexcept {
    report_silence(c);
    c.vigil.questions = static_cast<std::uint8_t>(std::min(c.vigil.questions + 1, 255));
    look_again(c, now);
}

void Lifecycle::look_again(Connection& c, engine::Nanoseconds now) noexcept {
    c.look_at = now + kAnswer;
    connections_.set_deadline(c, std::min(c.look_at, c.repeat_at));
}

// Now, or when there is room for the question.
void Lifecycle::doubt(Connection& c, engine::Nanoseconds now) noexcept {
    if (is_watched(c)) {
        c.vigil.in_doubt = true;
        c.vigil.questions = 0;
        c.copies_left = 0;
        connections_.set_deadline(c, now);
    }
}

// A live process denies, too, once its queue pair has failed. If it lost the DREQ, it confirms the repeated
// one.
void Lifecycle::peer_denies(Connection& c, engine::Nanoseconds now) noexcept {
    Vigil& vigil = c.vigil;
    if (is_watched(c) && vigil.in_doubt) {
        peer_is_lost(c, now);
    } else if (c.state == State::kDreqSent && vigil.questions > vigil.denied_at) {
        vigil.denied_at = vigil.questions;
        if (++vigil.denials == kEnoughDenials) {
            peer_is_lost(c, now);
        } else if (c.retries_left > 0) {
            c.repeat_at = now;
            connections_.set_deadline(c, now);
        }
    }
}

void Lifecycle::peer_answers(Connection& c, std::uint64_t tid, bool has_it,
                             engine::Nanoseconds now) noexcept {
    if (!is_watched(c) || c.vigil.questions == 0 || c.vigil.tid != tid) {
        ++counters_.dropped_unknown;
    } else if (has_it) {
        c.vigil.answers = true;
        c.vigil.in_doubt = false;
        c.vigil.heard_at = now;
        keep_alive(c, now);
    } else {
        peer_is_lost(c, now);
    }
}

bool Lifecycle::next_doubtful(ConnectionId& id) noexcept {
    return take_first(doubtful_, id);
}

void Lifecycle::peer_seen(Connection& c, Sight sight, engine::Nanoseconds now) noexcept {
    Vigil& vigil = c.vigil;
    if (!is_to_be_seen(c)) {
        return; // it has answered meanwhile
    }
    const bool is_refused = sight == Sight::kRefused;
    vigil.refusals = is_refused ? static_cast<std::uint8_t>(vigil.refusals + 1) : std::uint8_t{0};
    if (sight == Sight::kHere) {
        if (is_watched(c) && !vigil.in_doubt) { // otherwise another process may be there
            keep_alive(c, now);
        }
    } else if (sight == Sight::kGone || vigil.refusals == kEnoughRefusals ||
               (is_watched(c) && vigil.answers && now - vigil.heard_at > kMostSilence)) {
        peer_is_lost(c, now);
        return;
    }
    if (c.state == State::kDreqSent) {
        look_again(c, now); // the look may have taken long
    }
}

// What it would have said itself.
void Lifecycle::peer_is_lost(Connection& c, engine::Nanoseconds now) noexcept {
    report(c, EventType::kDisconnected, reason::kProcessEnded);
    time_wait(c, now);
}

} // namespace sluice::roce::cm
