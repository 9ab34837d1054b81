// SPDX-License-Identifier: BSD-3-Clause
//
// What the manager knows of one connection, from the first message to the end of its time-wait.
#pragma once

#include "roce/cm/types.hpp"

namespace sluice::roce::cm {

// Over a connection that is established or being ended: keepalive.cpp.
struct Vigil {
    std::uint64_t tid = 0;
    engine::Nanoseconds heard_at = 0;
    std::uint8_t questions = 0; // since the last answer; looks, since the first DREQ
    std::uint8_t refusals = 0;  // of its port, in a row
    std::uint8_t denials = 0;   // of a connection that is being ended
    std::uint8_t denied_at = 0; // the look before the last of them
    bool answers = false;       // has, once
    bool in_doubt = false;      // another process may be in its place: asked until somebody says
};

struct Connection {
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

    std::uint32_t comm_id = 0;
    std::uint32_t remote_comm_id = 0; // 0 until the peer told
    State state = State::kReqSent;
    bool active = false;
    bool datagram = false;
    bool established = false;    // once was
    bool orphan = false;         // the program let go of it
    bool alternate_path = false; // was asked for

    engine::Address local;
    engine::Address peer;
    std::uint64_t service_id = 0;
    std::uint16_t local_port = 0;
    std::uint16_t peer_port = 0;
    std::uint64_t cookie = 0;
    std::uint32_t listener = kNobody; // while it counts against its backlog

    std::uint64_t tid = 0;
    std::uint32_t qpn = 0;
    std::uint32_t peer_qpn = 0;
    std::uint32_t recv_psn = 0; // told to the peer
    std::uint32_t send_psn = 0; // told by the peer
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t path_mtu = 0;
    std::uint8_t ack_timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry_count = 0; // ours
    std::uint8_t rnr_retry_for_peer = 0;
    bool flow_control = false;
    bool srq = false; // ours
    bool peer_srq = false;
    std::uint32_t flow_label = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;

    Timing timing;
    std::uint8_t retries_left = 0;
    bool asked = false;                   // the peer, whether it still has this connection
    engine::Nanoseconds ask_again_at = 0; // not before
    engine::Nanoseconds give_up_at = engine::kNever;
    engine::Nanoseconds repeat_at = 0;       // a DREQ
    engine::Nanoseconds look_at = 0;         // for a peer that hasn't confirmed it
    engine::Nanoseconds ask_often_until = 0; // 0: the peer is asked as often as timing says
    bool is_there = false;                   // the peer, which has asked for patience
    bool is_looked_for = false;              // the peer, which hasn't answered
    bool asked_for_patience = false;         // we: the peer won't soon ask again for what is lost
    std::uint8_t copies_left = 0;            // of our last message, for which the peer won't ask
    Vigil vigil;
    std::uint16_t end_reason = 0; // why it is over, if it never came to be
    Mad last{};                   // what we said last, for when it must be said again

    // The list of orphans in time-wait, oldest first.
    std::uint32_t older = kNobody;
    std::uint32_t newer = kNobody;

    engine::Ends ends() const noexcept {
        return {.local = local, .qpn = qpn, .remote = peer, .peer_qpn = peer_qpn};
    }
    // From our side to the peer and back, and the peer's thinking in between.
    engine::Nanoseconds answer_time() const noexcept {
        return time_of(timing.response_timeout) + 2 * time_of(timing.packet_lifetime);
    }
    bool is_unanswered() const noexcept { return state == State::kReqSent || state == State::kSidrSent; }
    bool is_over() const noexcept { return state == State::kTimeWait || state == State::kClosed; }
};

} // namespace sluice::roce::cm
