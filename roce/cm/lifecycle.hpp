// SPDX-License-Identifier: BSD-3-Clause
//
// What happens to a connection, whether the program, its peer or the time causes it. Each transition sets
// the state, the deadline and the keys, and puts messages and events where transmit() and next_event() take
// them.
//
// Where an event follows, the caller has seen that has_room(). Not thread safe.
#pragma once

#include "roce/cm/connections.hpp"
#include "roce/cm/listeners.hpp"
#include "roce/cm/messages.hpp"
#include "roce/cm/random_numbers.hpp"
#include "roce/engine/ring.hpp"

namespace sluice::roce::cm {

class Lifecycle {
  public:
    Lifecycle(const ManagerConfig& config, ManagerCounters& counters, RandomNumbers& random,
              Listeners& listeners, Connections& connections);

    // It is NOW, for what happens next without being told.
    void tick(engine::Nanoseconds now) noexcept { now_ = now; }

    // The first message of an exchange: repeated until the peer answers, or C's time is over.
    void begin(Connection& c, const Mad& first, engine::Nanoseconds now) noexcept;
    // A message that may have to be said again; and one that won't.
    void say(Connection& c, const Mad& mad) noexcept;
    void push(const engine::Address& source, const engine::Address& destination, const Mad& mad) noexcept;
    void push(const Connection& c, const Mad& mad) noexcept { push(c.local, c.peer, mad); }
    // The program takes its time to answer MESSAGE.
    void ask_for_patience(Connection& c, Refused message) noexcept;
    // The last message is the answer that the peer was asked to wait for: it is said a few times more.
    void repeat_if_awaited(Connection& c, engine::Nanoseconds now) noexcept;
    void expect_answer(Connection& c, engine::Nanoseconds within, engine::Nanoseconds now) noexcept;

    // The first state of a new connection, and another of one that has a state.
    void start_in(Connection& c, State state) noexcept;
    void enter(Connection& c, State state) noexcept;
    void establish(Connection& c) noexcept;
    // The active side's end of the handshake.
    void confirm(Connection& c) noexcept;
    // The peer of C, which has our reply, shows by its RTU, by data or by an end that it is connected.
    void peer_is_ready(Connection& c) noexcept;
    // The end of what wasn't established, by our word.
    void reject(Connection& c, std::uint16_t why, std::span<const std::uint8_t> data,
                engine::Nanoseconds now) noexcept;
    void disconnect(Connection& c, engine::Nanoseconds now) noexcept;
    // Whether the peer still has this connection: it confirms that, or says that it hasn't, or is silent for
    // as long as it may be, which ends the connection. Only the passive side can ask, and does so once a
    // second at most.
    void ask_peer(Connection& c, engine::Nanoseconds now) noexcept;
    void peer_confirms(Connection& c, engine::Nanoseconds now) noexcept;
    void time_wait(Connection& c, engine::Nanoseconds now) noexcept;
    // Over at once; C is gone if nobody holds it.
    void close(Connection& c) noexcept;
    // keepalive.cpp: the answer to a question whether the peer has C; the connections whose peers don't
    // answer; and what the driver has seen of one.
    void peer_answers(Connection& c, std::uint64_t tid, bool has_it, engine::Nanoseconds now) noexcept;
    bool next_doubtful(ConnectionId& id) noexcept;
    // Another process may be in the place of C's peer: it is asked until it answers, also on loopback.
    void doubt(Connection& c, engine::Nanoseconds now) noexcept;
    void peer_denies(Connection& c, engine::Nanoseconds now) noexcept;
    void peer_seen(Connection& c, Sight sight, engine::Nanoseconds now) noexcept;
    // Peers on loopback that haven't answered for long, each once; and that nobody is there.
    bool next_silent(ConnectionId& id) noexcept;
    void nobody_there(Connection& c) noexcept;
    // C's deadline has come.
    void expire(Connection& c, engine::Nanoseconds now) noexcept;

    bool has_room(std::uint32_t events) const noexcept {
        return events_.capacity() - events_.size() >= events;
    }
    // What C is to the program, to be completed by the caller.
    Event& add_event(const Connection& c, EventType type) noexcept;
    // An event, unless the program has let go of C.
    void report(const Connection& c, EventType type, std::uint16_t why = 0) noexcept;

    bool transmit(OutMad& out) noexcept;
    bool next_event(Event& out) noexcept;

  private:
    void set_state(Connection& c, State from, State to) noexcept;
    void ask_often(Connection& c, engine::Nanoseconds now) noexcept;
    void send_copy(Connection& c, engine::Nanoseconds now) noexcept;
    void wait_for_late_copies(Connection& c, engine::Nanoseconds now) noexcept;
    void give_up(Connection& c, engine::Nanoseconds now) noexcept;
    void keep_alive(Connection& c, engine::Nanoseconds now) noexcept;
    void ask_for_life(Connection& c, engine::Nanoseconds now) noexcept;
    static void begin_to_look(Connection& c, engine::Nanoseconds now) noexcept;
    void await_end(Connection& c, engine::Nanoseconds now) noexcept;
    void look_for_peer(Connection& c, engine::Nanoseconds now) noexcept;
    void look_again(Connection& c, engine::Nanoseconds now) noexcept;
    void report_silence(const Connection& c) noexcept;
    void peer_is_lost(Connection& c, engine::Nanoseconds now) noexcept;
    static bool take_first(engine::Ring<ConnectionId>& from, ConnectionId& id) noexcept;

    const ManagerConfig& config_;
    ManagerCounters& counters_;
    RandomNumbers& random_;
    Listeners& listeners_;
    Connections& connections_;
    engine::Ring<Event> events_;
    engine::Ring<OutMad> outbox_;
    engine::Ring<ConnectionId> silent_;
    engine::Ring<ConnectionId> doubtful_;
    engine::Nanoseconds now_ = 0;
};

} // namespace sluice::roce::cm
