// SPDX-License-Identifier: BSD-3-Clause
//
// Whether anybody has a peer's RoCE port. A datagram that is too short for a packet is sent there from a port
// of its own: where nobody listens, the peer's kernel says so (ICMP, port unreachable), and our kernel tells
// the socket that has sent it. A device drops it, and a host that is stopped or away says nothing.
//
// The answer can be forged by whoever guesses the socket's port, of which there are some 28,000; it is a
// hint, and never a proof.
//
// Not thread safe. Nothing here waits or allocates.
#pragma once

#include <array>

#include "core/descriptor.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::socket {

class PortProbe {
  public:
    // SCOPE is the interface for link-local peers.
    explicit PortProbe(unsigned scope) noexcept : scope_(scope) {}

    // What came of what was sent from LOCAL to PEER before, and asks anew, ten times a second at most.
    engine::Port look(const engine::Address& local, const engine::Address& peer,
                      engine::Nanoseconds now) noexcept;
    // This is the child of a fork: the sockets are the parent's.
    void abandon() noexcept;

  private:
    static constexpr engine::Nanoseconds kBetween = 100'000'000;
    // Queue pairs and the connection manager look again after 1.1 s. An answer stands until shortly before,
    // since it must not count twice; the question is kept until shortly after.
    static constexpr engine::Nanoseconds kValid = 1'000'000'000;
    static constexpr engine::Nanoseconds kKept = 1'300'000'000;

    struct Probe {
        Descriptor socket;
        engine::Address local;
        engine::Address peer;
        engine::Nanoseconds asked_at = 0;
        engine::Nanoseconds refused_at = 0; // 0: it isn't
    };

    Probe* find(const engine::Address& local, const engine::Address& peer, engine::Nanoseconds now) noexcept;
    bool open(Probe& probe, const engine::Address& local, const engine::Address& peer) const noexcept;
    static void read_answers(Probe& probe, engine::Nanoseconds now) noexcept;

    const unsigned scope_;
    std::array<Probe, 16> probes_; // the one that was asked longest ago makes room
};

} // namespace sluice::roce::socket
