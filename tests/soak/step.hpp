// SPDX-License-Identifier: BSD-3-Clause
//
// What two processes do with each other in one step. Everything in it comes of the seed and the step's
// number, so that a step can be repeated without those before it, and both processes draw the same.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::test::soak {

inline constexpr unsigned kMaxConnections = 8;

enum class Work : std::uint8_t { kTraffic, kProgram };
// How the peer is reached.
enum class Way : std::uint8_t { kMemory, kUdp, kFaults };
// What happens in the last round, in the middle of its traffic.
enum class Event : std::uint8_t { kNone, kPartnerKilled, kPartnerStopped, kLeaderStopped };

struct Step {
    std::uint64_t number = 0;
    std::uint64_t seed = 0; // of this step
    Work work = Work::kTraffic;
    Way way = Way::kMemory;
    Event event = Event::kNone;
    unsigned program = 0;         // of kProgram: to be taken modulo how many there are
    bool is_fresh = false;        // devices are opened for it, and not kept from step to step
    bool is_one_address = false;  // for both processes
    bool with_srq = false;        // one for all connections
    bool with_datagrams = false;  // UD beside the connections
    bool waits = false;           // for events, instead of polling
    bool in_shared_file = false;  // what is registered
    bool leader_connects = false; // the other one listens
    bool leader_disconnects = false;
    unsigned connections = 1;
    unsigned refused = 0;    // connections that the passive side rejects before it accepts others
    unsigned rounds = 1;     // of connecting, traffic and disconnecting
    unsigned operations = 0; // of each side in each round
    unsigned event_at = 0;   // the number of the operation
    unsigned stop_ms = 0;
    std::string faults{}; // SLUICE_UROCE_FAULTS of the leader
    std::string partner_faults{};

    bool goes_through_packets_only() const { return way != Way::kMemory; }
};

Step draw_step(std::uint64_t seed, std::uint64_t number, bool with_programs);
std::string describe(const Step& step);

// One number of several, for streams of random numbers that have nothing to do with each other.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0);

} // namespace sluice::test::soak
